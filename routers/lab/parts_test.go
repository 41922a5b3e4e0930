package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		n := 0
		err := Wait(t.Context(), "three", time.Second, func() (bool, error) { n++; return n == 3, nil })
		if err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		last := errors.New("still two")
		err = Wait(ctx, "three", time.Second, func() (bool, error) { return false, last })
		want := "lab: waiting for three: context deadline exceeded (last: still two)"
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, last) || err.Error() != want {
			t.Errorf("%v", err)
		}
	})
}

// A tb records how a test would have ended.
type tb struct {
	testing.TB
	ended string
}

func (tb *tb) Helper()                      {}
func (tb *tb) Fatalf(f string, args ...any) { tb.ended = "fatal: " + fmt.Sprintf(f, args...) }
func (tb *tb) Skipf(f string, args ...any)  { tb.ended = "skip: " + fmt.Sprintf(f, args...) }

func TestRequire(t *testing.T) {
	for _, c := range []struct {
		missing []string
		ci      bool
		want    string
	}{
		{nil, true, ""},
		{nil, false, ""},
		{[]string{"ip", "root"}, true, "fatal: lab: missing ip, root: run `make deps` as root"},
		{[]string{"ip"}, false, "skip: lab: NOT TESTED: missing ip: run `make deps` and the tests as root"},
	} {
		var got tb
		require(&got, c.missing, c.ci)
		if got.ended != c.want {
			t.Errorf("%v, CI %t: %q, want %q", c.missing, c.ci, got.ended, c.want)
		}
	}
}

func TestLSAs(t *testing.T) {
	const v2 = `
       OSPF Router with ID (10.0.0.1)

Link ID         ADV Router      Age  Seq#       CkSum  Link count
10.0.0.1       10.0.0.1          10 0x80000006 0x5a15 5
10.0.1.2       10.0.1.2          11 0x80000002 0x5a9b 2
`
	const v3 = `
Type LSId           AdvRouter       Age   SeqNum                        Payload
Rtr  0.0.0.0        10.0.0.1         10 80000004               10.0.1.2/0.0.0.2
INP  0.0.0.0        10.0.1.2         11 80000002                2001:db8:1::/64
`
	const bird = `1017-
 Area 0.0.0.0

  Type   LS ID           Router          Sequence   Age  Checksum
 0001  10.0.0.1         10.0.0.1        80000002     4    6e2f
 0001  10.0.1.2         10.0.1.2        80000003    11    1a2b
0000 
`
	const bird6 = `1017-
 Link eth0

  Type   LS ID           Router          Sequence   Age  Checksum
  2009  0.0.0.0         10.0.1.2         80000002    10    4179
  0008  0.0.0.3         10.0.1.2         80000001    12    d997
0000 
`
	for _, c := range []struct {
		text string
		columns
		v    int
		want map[string]bool
	}{
		{v2, columns{1, 3}, 4, map[string]bool{"10.0.1.2 80000002": true}},
		{v3, columns{2, 4}, 6, map[string]bool{"INP 0.0.0.0 80000002": true}},
		{bird, columns{2, 3}, 4, map[string]bool{"10.0.1.2 80000003": true}},
		{bird6, columns{2, 3}, 6, map[string]bool{"INP 0.0.0.0 80000002": true}},
		{"", columns{1, 3}, 4, map[string]bool{}},
	} {
		if diff := cmp.Diff(c.want, lsas(c.text, netip.MustParseAddr("10.0.1.2"), c.columns, c.v)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestStreamCounts(t *testing.T) {
	t0 := time.Unix(1000, 0)
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	lost := errors.New("timeout")
	s := &Stream{queries: []Query{
		{Sent: at(0), Answered: at(1), Node: "apu01"},
		{Sent: at(5), Answered: at(6), Node: "apu02"},
		{Sent: at(10), Lost: lost},
		{Sent: at(15)},
		{Sent: at(20), Answered: at(21), Node: "apu02"},
	}}
	for _, c := range []struct {
		from, to int
		want     string
	}{
		{0, 100, "5 sent, 1 lost, 1 waiting, apu01 1, apu02 2"},
		{0, 10, "2 sent, 0 lost, apu01 1, apu02 1"},
		{10, 11, "1 sent, 1 lost"},
		{20, 0, "0 sent, 0 lost"},
	} {
		if got := s.Between(at(c.from), at(c.to)).String(); got != c.want {
			t.Errorf("from %d to %d: %q, want %q", c.from, c.to, got, c.want)
		}
	}
	if got := s.Lost(at(0), at(100)); len(got) != 1 || !got[0].Sent.Equal(at(10)) {
		t.Errorf("lost: %v", got)
	}
}

func TestFollowerSince(t *testing.T) {
	t0 := time.Unix(1000, 0)
	f := &Follower{history: []Seen{{Time: t0}, {Time: t0.Add(1)}, {Time: t0.Add(3)}}}
	for at, want := range map[time.Duration]int{-1: 3, 0: 3, 1: 2, 2: 2, 3: 1, 9: 1} {
		if got := f.Since(t0.Add(at)); len(got) != want {
			t.Errorf("since %d: %d states, want %d", at, len(got), want)
		}
	}
}

func TestLeadsTo(t *testing.T) {
	_, n32, _ := net.ParseCIDR("10.53.53.53/32")
	_, n24, _ := net.ParseCIDR("10.53.53.0/24")
	_, n6, _ := net.ParseCIDR("2001:db8:53::53/128")
	_, all, _ := net.ParseCIDR("0.0.0.0/0")
	for _, c := range []struct {
		dst    *net.IPNet
		prefix string
		want   bool
	}{
		{n32, "10.53.53.53/32", true},
		{n24, "10.53.53.53/32", false},
		{n6, "2001:db8:53::53/128", true},
		{nil, "10.53.53.53/32", false},
		{nil, "0.0.0.0/0", true},
		{all, "0.0.0.0/0", true},
	} {
		if got := leadsTo(c.dst, netip.MustParsePrefix(c.prefix)); got != c.want {
			t.Errorf("%v leads to %s: %t", c.dst, c.prefix, got)
		}
	}
}

func TestPrefixes(t *testing.T) {
	got := fmt.Sprint(prefixes(AnycastOptions{}), prefixes(AnycastOptions{Prefixes: 3, IPv6: true}))
	if want := "[10.53.53.53/32] [10.53.53.53/32 10.53.53.54/32 10.53.53.55/32 2001:db8:53::53/128]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOptionsAreInTheConfiguration(t *testing.T) {
	const line = "no zebra nexthop kernel enable\n"
	if strings.Contains(nodeConfig(AnycastOptions{}, 1), line) || !strings.Contains(nodeConfig(AnycastOptions{NoNexthopObjects: true}, 1), line) {
		t.Error("NoNexthopObjects does not show")
	}
	o := AnycastOptions{NodeOSPF: " node-ospf\n", NodeConfig: "node-config\n", CoreOSPF: " core-ospf\n"}
	if c := nodeConfig(o, 2); !strings.Contains(c, o.NodeOSPF) || !strings.Contains(c, o.NodeConfig) || !strings.Contains(c, "hostname apu02\n") {
		t.Errorf("node: %s", c)
	}
	if c := coreConfig(o); !strings.Contains(c, o.CoreOSPF) || strings.Contains(c, "ospf6") {
		t.Errorf("core: %s", c)
	}
}

func TestListening(t *testing.T) {
	const text = `Num       RefCount Protocol Flags    Type St Inode Path
00000000b1: 00000002 00000000 00010000 0001 01 60712 /run/vlab/a/frr/zebra.vty
00000000b2: 00000003 00000000 00000000 0001 03 60713 /run/vlab/a/frr/bgpd.vty
00000000b3: 00000002 00000000 00010000 0001 01 60714
`
	if diff := cmp.Diff(map[string]bool{"/run/vlab/a/frr/zebra.vty": true}, listening(text)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestLogsOfDaemonsAreShown(t *testing.T) {
	n := &Net{dir: t.TempDir()}
	for path, text := range map[string]string{"a/bird.log": "what BIRD said\n", "a/frr/bgpd.log": "what bgpd said\n", "b/frr/frr.conf": "no log\n"} {
		path = filepath.Join(n.dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := n.logs(), "--- a/bird.log\nwhat BIRD said\n--- a/frr/bgpd.log\nwhat bgpd said\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
