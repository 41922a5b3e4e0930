package http

import (
	"context"
	"fmt"
	nethttp "net/http"
	"net/netip"
	"testing"
	"time"

	"vouch/checks"
	"vouch/checks/checktest"
	"vouch/checks/trust"
)

// The zone of the URL's address is for this node alone: the server is not told of it, and its certificate is
// not to have it.
func TestZone(t *testing.T) {
	s := checktest.NewSpace(t)
	s.IP("addr add fe80::b/64 dev lo nodad")
	s.Await("fe80::b%lo")
	ca := checktest.NewCA(t)
	conf := ca.Issue(t, "fe80::b").Config()
	handler := nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.URL.Path == "/away" {
			nethttp.Redirect(w, r, "/host", nethttp.StatusFound)
			return
		}
		fmt.Fprint(w, r.Host)
	})
	var plain, secure, h3 netip.AddrPort
	s.Do(func() {
		const host = "fe80::b%0000000000000001" // lo, which another test may have given another number
		plain, secure, h3 = checktest.HTTP(t, host, nil, handler), checktest.HTTP(t, host, conf, handler), checktest.HTTP3(t, host, conf, handler)
	})
	for _, c := range []struct {
		version, scheme string
		at              netip.AddrPort
	}{{"1.1", "http", plain}, {"2", "http", plain}, {"1.1", "https", secure}, {"2", "https", secure}, {"3", "https", h3}} {
		for _, path := range []string{"/host", "/away"} {
			url := fmt.Sprintf("%s://[fe80::b%%25lo]:%d%s", c.scheme, c.at.Port(), path)
			spec := Spec{URL: url, Version: c.version, Redirects: 1, ExpectBody: fmt.Sprintf(`^\[fe80::b\]:%d$`, c.at.Port())}
			if c.scheme == "https" {
				spec.Spec = trust.Spec{CA: ca.File}
			}
			k := create(t, spec)
			ctx, cancel := context.WithTimeout(t.Context(), long)
			var err error
			s.Do(func() { err = k.Check(ctx) })
			cancel()
			if err != nil {
				t.Errorf("%s over %s: %v", url, c.version, err)
			}
			if got := k.(*checker).url.String(); got != url {
				t.Errorf("told as %s, want %s", got, url)
			}
		}
	}
	k := create(t, Spec{URL: "https://[fe80::b%25gone]/", Version: "3", Spec: trust.Spec{CA: ca.File}})
	var err error
	s.Do(func() { err = k.Check(t.Context()) })
	want(t, err, checks.ReasonUnreachable, "there is no interface gone")
}

// Another interface that has the name now is not the one that was asked a moment ago.
func TestRenamedZone(t *testing.T) {
	s := checktest.NewSpace(t)
	s.IP("addr add fe80::b/64 dev lo nodad", "link add va type veth peer name vb", "link set va up", "link set vb up")
	s.Await("fe80::b%lo")
	ca := checktest.NewCA(t)
	conf := ca.Issue(t, "fe80::b").Config()
	var ways []checks.Checker
	s.Do(func() {
		for version, at := range map[string]netip.AddrPort{"1.1": checktest.HTTP(t, "fe80::b%0000000000000001", conf, hello), "3": checktest.HTTP3(t, "fe80::b%0000000000000001", conf, hello)} {
			ways = append(ways, create(t, Spec{URL: fmt.Sprintf("https://[fe80::b%%25lo]:%d/", at.Port()), Version: version, Spec: trust.Spec{CA: ca.File}}))
		}
	})
	ask := func(c checks.Checker, d time.Duration) (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		s.Do(func() { err = c.Check(ctx) })
		return err
	}
	for _, c := range ways {
		want(t, ask(c, long), "")
	}
	s.IP("link set lo name lp", "link set va down", "link set va name lo", "link set lo up")
	for _, c := range ways {
		if err := ask(c, 50*time.Millisecond); err == nil {
			t.Errorf("%s is ok through the interface that had the name before", c)
		}
	}
}
