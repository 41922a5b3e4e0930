package http

import (
	"fmt"
	"net"
	nethttp "net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vouch/checks/checktest"
	"vouch/checks/trust"
)

// Whoever looks on sees what went over the wire, but no secrets and not all of a long body.
func TestTrace(t *testing.T) {
	each(t, func(t *testing.T, way string) {
		s := serve(t, nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("X-Node", "node1")
			w.Header().Set("Set-Cookie", "session=s3cret")
			fmt.Fprint(w, "begin", strings.Repeat("x", 10000), "end")
		}))
		spec := s.spec(way, "/path?query")
		spec.Method, spec.Body, spec.ExpectBody = "POST", "what is sent", "end$"
		spec.Headers = map[string]string{"Authorization": "Basic s3cret", "X-Api-Key": "s3cret", "X-Probe": "yes", "User-Agent": ""}
		got, err := shown(t, spec, long)
		want(t, err, "")
		// As they go over the wire: in small letters but for HTTP/1.1, which alone has Connection.
		fields := "Accept: */*\nAuthorization: …\nConnection: close\nContent-Length: 12\nX-Api-Key: …\nX-Probe: yes\n"
		if ways[way] != "HTTP/1.1" {
			fields = strings.ToLower(strings.Replace(fields, "Connection: close\n", "", 1))
		}
		words := []string{"* over ", "> POST /path?query " + ways[way] + "\nHost: " + name, "\n" + fields + "\nwhat is sent\n",
			"< HTTP/", "200 OK", "X-Node: node1", "Set-Cookie: …", "\n\nbegin", "(cut after 4096 bytes)"}
		if way != "plain" && way != "h2c" {
			words = append(words, "certificate of "+name)
		}
		for _, w := range words {
			if !strings.Contains(got, w) {
				t.Errorf("no %q in\n%.2000s", w, got)
			}
		}
		if strings.Contains(got, "s3cret") || len(got) > 6000 || strings.Contains(strings.ToLower(got), "user-agent") {
			t.Errorf("%d bytes: %s", len(got), got)
		}
	})
}

// Whoever looks on sees what came that could not be understood.
func TestTraceOfNoAnswer(t *testing.T) {
	for what, c := range map[string]struct {
		serve func(net.Conn)
		h2    bool
		wait  time.Duration
		shown string
	}{
		"nothing":         {drain, false, short, "< nothing came back\n"},
		"closed":          {sayAndClose(""), false, long, "< nothing came back\n"},
		"half a header":   {sayAndClose(head + "Set-Cookie: s3cret\r\nX-Half"), false, long, "< 43 bytes:\n\"HTTP/1.1 200 OK\\r\\n\"\n\"Set-Cookie: …\\r\\n\"\n\"X-Half\"\n"},
		"endless header":  {endless(head+"X-Long: ", "x"), false, long, " bytes:\n\"HTTP/1.1 200 OK\\r\\n\"\n\"X-Long: " + strings.Repeat("x", 175) + "\"\n…\n"},
		"dripping header": {drip(head + "X-Slow: "), false, short, " bytes:\n\"HTTP/1.1 200 OK\\r\\n\"\n\"X-Slow: x"},
		"another":         {say("220 mail.example.net ESMTP\r\n"), false, long, "< 28 bytes: \"220 mail.example.net ESMTP\\r\\n\"\n"},
		"no HTTP/2":       {say("HTTP/1.1 400 Bad Request\r\n\r\n"), true, long, "\"HTTP/1.1 400 Bad Request\\r\\n\"\n"},
		"switches":        {say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), false, long, "< HTTP/1.1 101 Switching Protocols\nConnection: upgrade\n"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := Spec{URL: "http://" + checktest.TCP(t, "127.0.0.1", c.serve).String() + "/", Version: "1.1"}
			if c.h2 {
				s.Version = "2"
			}
			got, err := shown(t, s, c.wait)
			if err == nil || !strings.Contains(got, c.shown) || strings.Contains(got, "s3cret") {
				t.Errorf("%v\n%s\nwant %s", err, got, c.shown)
			}
		})
	}
}

// Below HTTP/2 and HTTP/3 what came is not to be read: whoever looks on sees what they say of it, and how much it was.
func TestTraceOfFrames(t *testing.T) {
	ca := checktest.NewCA(t)
	conf := ca.Issue(t, name).Config()
	conf.NextProtos = []string{"h2"}
	frame := func(kind byte, stream uint32, payload ...byte) netip.AddrPort {
		return checktest.TLS(t, "127.0.0.1", conf, checktest.HTTP2(func(c net.Conn) { _ = checktest.Frame(c, kind, 0, stream, payload) }))
	}
	shut := closing(t, conf, 0x107, "busy") // H3_EXCESSIVE_LOAD (RFC 9114, section 8.1)
	for what, c := range map[string]struct {
		version string
		at      netip.AddrPort
		shown   []string
	}{
		"GOAWAY":   {"2", frame(7, 0, 0, 0, 0, 0, 0, 0, 0, 11), []string{"ENHANCE_YOUR_CALM", " bytes came back, encrypted"}}, // RFC 9113, section 6.8
		"RST":      {"2", frame(3, 1, 0, 0, 0, 7), []string{"REFUSED_STREAM", " bytes came back, encrypted"}},                 // section 6.4
		"no frame": {"2", frame(0, 0, 1), []string{"PROTOCOL_ERROR", " bytes came back, encrypted"}},                          // DATA of no stream
		"HTTP/3":   {"3", shut, []string{"H3_EXCESSIVE_LOAD", " packets came back"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := Spec{URL: "https://" + name + "/", Connect: c.at.String(), Version: c.version, Method: "POST", Body: "x", Spec: trust.Spec{CA: ca.File}}
			got, err := shown(t, s, long)
			for _, w := range append(c.shown, "< no answer: ") {
				if err == nil || !strings.Contains(got, w) {
					t.Errorf("%v\n%s\nwant %s", err, got, w)
				}
			}
		})
	}
}
