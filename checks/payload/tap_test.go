package payload

import (
	"net"
	"strings"
	"testing"
)

func TestTap(t *testing.T) {
	long := strings.Repeat("x", 300)
	for came, want := range map[string]string{
		"":                      "nothing came back",
		"SSH-2.0-x\r\n":         `11 bytes: "SSH-2.0-x\r\n"`,
		"\x15\x03\x03":          "3 bytes: 15 03 03",
		long:                    "300 bytes:\n\"" + long[:200] + "\"\n…",
		"A: b\nset-cookie: c\n": "19 bytes:\n\"A: b\\n\"\n\"set-cookie: …\\n\"",
		// As broken as they come.
		"X-Token s3cret":                       `14 bytes: "X-Token  …"`,
		"Cookie : s3cret\n":                    `16 bytes: "Cookie  …\n"`,
		"Cookie: s3cret\n s3cret\r\n\tb\nB: c": "31 bytes:\n\"Cookie: …\\n\"\n\" …\\r\\n\"\n\" …\\n\"\n\"B: c\"",
		"\x01\nAuthorization: s3cret":          "23 bytes: 01 0a 41 75 74 68 6f 72 69 7a 61 74 69 6f 6e 3a 20 e2 80 a6",
	} {
		near, far := net.Pipe()
		go func() {
			for i := range came { // a byte at a time
				_, _ = far.Write([]byte{came[i]})
			}
			far.Close()
		}()
		tap := &Tap{Conn: near}
		for buf := make([]byte, 7); ; {
			if _, err := tap.Read(buf); err != nil {
				break
			}
		}
		if got := tap.String(); got != want || tap.Came() != len(came) {
			t.Errorf("%q, %d bytes:\n got %s\nwant %s", came, tap.Came(), got, want)
		}
	}
}
