package payload

import (
	"bytes"
	"strings"
	"testing"
)

func TestField(t *testing.T) {
	for _, c := range []struct {
		text, hex string
		want      []byte
		problem   string
	}{
		{"", "", nil, ""},
		{"PING\r\n", "", []byte("PING\r\n"), ""},
		{"", "0d0a", []byte("\r\n"), ""},
		{"", " 0D 0a\n00 ff ", []byte{13, 10, 0, 255}, ""},
		{"", "0d0", nil, "send_hex: must be pairs of hexadecimal digits"},
		{"", "0x0d", nil, "send_hex: must be pairs of hexadecimal digits"},
		{"", "  ", nil, "send_hex: has no byte in it"},
		{"", "\n", nil, "send_hex: has no byte in it"},
		{"a", "61", []byte("a"), "send_hex: has no effect beside send"},
		{"12345678", "", []byte("12345678"), ""},
		{"123456789", "", []byte("123456789"), "send: is of 9 bytes, more than the 8 there may be"},
		{"", "313233343536373839", []byte("123456789"), "send_hex: is of 9 bytes, more than the 8 there may be"},
	} {
		f := Field{Key: "send", Text: c.text, Hex: c.hex, Most: 8}
		if got := f.Bytes(); !bytes.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%+v: %q", f, got)
		}
		got := ""
		for _, p := range f.Problems() {
			got += p.Key + ": " + p.What
			if p.WayOut == "" {
				t.Errorf("%+v: no way out", f)
			}
		}
		if got != c.problem {
			t.Errorf("%+v:\n got %s\nwant %s", f, got, c.problem)
		}
	}
}

func TestExcerpt(t *testing.T) {
	for in, want := range map[string]string{
		"":                       `""`,
		"220 ready\r\n":          `"220 ready\r\n"`,
		"grüß":                   `"grüß"`,
		"\x1b[31m":               `1b 5b 33 31 6d`,
		"a\x00b":                 `61 00 62`,
		"\xff\xfe":               `ff fe`,
		strings.Repeat("x", 100): `"` + strings.Repeat("x", 60) + `"…`,
	} {
		if got := Excerpt([]byte(in)); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	if got := Excerpt([]byte(strings.Repeat("x", 59) + "ü")); !strings.HasPrefix(got, `"xxx`) {
		t.Errorf("a rune that is cut makes it hexadecimal: %s", got)
	}
}

func TestDump(t *testing.T) {
	for in, want := range map[string]string{
		"":                               `0 bytes: ""`,
		"a\n":                            `2 bytes: "a\n"`,
		"a\r\nb":                         "4 bytes:\n\"a\\r\\n\"\n\"b\"",
		"a\n\n":                          "3 bytes:\n\"a\\n\"\n\"\\n\"",
		"\x00\x01":                       "2 bytes: 00 01",
		"\xff" + strings.Repeat("x", 36): "37 bytes:\nff" + strings.Repeat(" 78", 31) + "\n78 78 78 78 78",
	} {
		if got := Dump([]byte(in)); got != want {
			t.Errorf("%q:\n got %s\nwant %s", in, got, want)
		}
	}
	if got := Dump(make([]byte, 1<<20)); len(got) > 20<<10 || !strings.HasPrefix(got, "1048576 bytes:\n00 00") || !strings.HasSuffix(got, "\n…") {
		t.Errorf("%d bytes: %.40s", len(got), got)
	}
}
