package dns

import (
	"fmt"
	"testing"
	"time"

	"github.com/miekg/dns"

	"vouch/checks"
	"vouch/checks/checktest"
)

func soa(t testing.TB, serial uint32) dns.HandlerFunc {
	return zone(t, 0, nil, fmt.Sprintf("example.net. 300 IN SOA ns.example.net. hm.example.net. %d 1 1 1 1", serial))
}

func TestLag(t *testing.T) {
	for _, c := range []struct {
		own, other, lag uint32
		ok              bool
	}{
		{7, 7, 0, true}, {7, 8, 0, false}, {8, 7, 0, true}, {7, 8, 1, true}, {7, 10, 2, false},
		{4294967295, 0, 0, false}, {4294967295, 0, 1, true}, {0, 4294967295, 0, true}, {0, 1 << 31, 5, false},
		{2026010100, 2026010200, 99, false}, {2026010100, 2026010200, 100, true},
	} {
		if err := judgeLag(c.own, c.other, c.lag, "x"); (err == nil) != c.ok {
			t.Errorf("%d, where the other has %d, lag %d: %v", c.own, c.other, c.lag, err)
		}
	}
}

func TestAge(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		serial uint32
		most   time.Duration
		ok     bool
		words  string
	}{
		{2026031000, 12 * time.Hour, true, ""},
		{2026031099, 11 * time.Hour, false, "serial 2026031099 is of 2026-03-10T00:00:00Z, longer ago than serial_max_age, 11h0m0s"},
		{2026030701, 72 * time.Hour, false, "is of 2026-03-07"},
		{2026030701, 96 * time.Hour, true, ""},
		{2026031201, time.Hour, true, ""}, // another time zone
		{2027010101, time.Hour, false, "neither a date"},
		{2026133201, time.Hour, false, "neither a date"},
		{uint32(now.Unix()) - 3600, time.Hour, true, ""},
		{uint32(now.Unix()) - 3601, time.Hour, false, "is of 2026-03-10T10:59:59Z"},
		{17, time.Hour, false, "serial 17 is neither a date"},
		{4294967295, time.Hour, false, "neither a date"},
	} {
		f := judgeAge(c.serial, now, c.most)
		if (f == nil) != c.ok {
			t.Errorf("%d, at most %s: %v", c.serial, c.most, f)
		}
		if f != nil {
			want(t, f, checks.ReasonMismatch, c.words)
		}
	}
}

// The serial is compared with that of another server; when that one cannot tell, nothing is found out.
func TestSerial(t *testing.T) {
	today := time.Now().UTC().Format("20060102")
	var dated uint32
	if _, err := fmt.Sscan(today+"05", &dated); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		own, other dns.HandlerFunc
		config     string
		reason     checks.Reason
		words      string
	}{
		"same":               {soa(t, 7), soa(t, 7), "", "", ""},
		"behind":             {soa(t, 7), soa(t, 9), "", checks.ReasonMismatch, "serial 7 is behind 9 of 127.0.0.1:"},
		"behind, let pass":   {soa(t, 7), soa(t, 9), "serial_lag = 2", "", ""},
		"behind by more":     {soa(t, 7), soa(t, 10), "serial_lag = 2", checks.ReasonMismatch, "serial_lag is 2"},
		"ahead":              {soa(t, 9), soa(t, 7), "", "", ""},
		"other is silent":    {soa(t, 7), checktest.Silent(), "", checks.ReasonUnknown, "the serial of 127.0.0.1:"},
		"other is closed":    {soa(t, 7), nil, "", checks.ReasonUnknown, "is not known: read: connection refused (sent from 127.0.0.1)"},
		"other refuses":      {soa(t, 7), checktest.Answer(dns.RcodeRefused), "", checks.ReasonUnknown, "is not known: it answers REFUSED without an SOA record"},
		"own is refused":     {checktest.Answer(dns.RcodeRefused), checktest.Silent(), "", checks.ReasonStatus, "REFUSED"},
		"own is empty":       {zone(t, 0, nil), soa(t, 7), "", checks.ReasonMismatch, "0 of at least 1 records of type SOA"},
		"young":              {soa(t, dated), soa(t, dated), `serial_max_age = "36h"`, "", ""},
		"old":                {soa(t, 2020010101), soa(t, 2020010101), `serial_max_age = "72h"`, checks.ReasonMismatch, "serial 2020010101 is of 2020-01-01"},
		"old, behind":        {soa(t, 2020010101), soa(t, dated), `serial_max_age = "72h"`, checks.ReasonMismatch, "longer ago"},
		"other is truncated": {soa(t, 7), checktest.Truncated(), "", checks.ReasonUnknown, "is not known: over tcp, as the answer over udp is truncated: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own, other := checktest.DNS(t, "127.0.0.1", c.own, nil), checktest.DNS(t, "127.0.0.1", c.other, nil)
			s := decode(t, fmt.Sprintf("server = %q\nname = \"example.net\"\nserial_from = %q\n%s", own, other, c.config))
			d := 5 * time.Second
			if name == "other is silent" {
				d = time.Second
			}
			want(t, probeFor(t, *s, d), c.reason, c.words)
		})
	}
}
