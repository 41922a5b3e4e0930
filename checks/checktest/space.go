package checktest

import (
	"context"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vouch/checks/datagram"
	"vouch/routers/command"
)

// A Space is a network namespace, and a thread that lives in it until the test ends. The kernel frees
// the namespace with the thread. It has a loopback interface, which is up.
type Space struct {
	tb   testing.TB
	todo chan func()
	pid  int // of the thread
}

// NewSpace makes one. Without root the test is skipped, and fails where CI=true.
func NewSpace(tb testing.TB) *Space {
	tb.Helper()
	s := &Space{tb: tb, todo: make(chan func())}
	made, ended := make(chan error), make(chan struct{})
	go s.live(made, ended)
	if err := <-made; err != nil {
		why := "no network namespace, which needs root: " + err.Error()
		if os.Getenv("CI") == "true" {
			tb.Fatal(why)
		}
		tb.Skip("SKIPPED: " + why)
	}
	tb.Cleanup(func() {
		close(s.todo)
		<-ended
	})
	s.IP("link set lo up")
	return s
}

func (s *Space) live(made chan<- error, ended chan<- struct{}) {
	defer close(ended)
	runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
	s.pid = unix.Gettid()
	err := unix.Unshare(unix.CLONE_NEWNET)
	made <- err
	if err != nil {
		return
	}
	s.serve()
}

// serve does what there is to do, and goes on when a function ends its goroutine, as by t.Fatal: what the test has
// to clean up needs the thread yet.
func (s *Space) serve() {
	idle := false
	defer func() {
		if p := recover(); p != nil {
			panic(p)
		}
		if !idle {
			s.serve()
		}
	}()
	for fn := range s.todo {
		fn()
	}
	idle = true
}

// Name is what the ip program takes for a namespace: "link set eth0 netns NAME".
func (s *Space) Name() string { return strconv.Itoa(s.pid) }

// Do runs fn in the namespace, and waits for it. What fn starts in goroutines of its own is outside. When fn ends
// the test, as by t.Fatal, so does Do.
func (s *Space) Do(fn func()) {
	done, returned := make(chan struct{}), false
	s.todo <- func() {
		defer close(done)
		fn()
		returned = true
	}
	<-done
	if !returned {
		runtime.Goexit()
	}
}

// IP has the ip program do what the lines say, such as "addr add 192.0.2.1/24 dev eth0".
func (s *Space) IP(lines ...string) {
	s.tb.Helper()
	var out command.Output
	var err error
	s.Do(func() {
		out, err = command.Run(s.tb.Context(), command.Spec{Path: "ip", Args: []string{"-batch", "-"}, Stdin: strings.Join(lines, "\n") + "\n"})
	})
	if err != nil || out.Code != 0 {
		s.tb.Fatalf("ip %s: %v, %s", strings.Join(lines, "; ip "), err, out.Stderr)
	}
}

// Sysctl writes a file below /proc/sys/net.
func (s *Space) Sysctl(path, value string) {
	s.tb.Helper()
	var err error
	s.Do(func() { err = os.WriteFile("/proc/sys/net/"+path, []byte(value), 0) })
	if err != nil {
		s.tb.Fatal(err)
	}
}

// Await returns when the addresses answer ping from the space. A link takes up to a second until it carries
// anything, and neighbours are to be found first.
func (s *Space) Await(addrs ...string) {
	s.tb.Helper()
	late := time.Now().Add(20 * time.Second)
	for _, a := range addrs {
		var err error
		for answered := false; !answered; {
			s.Do(func() { answered, err = answers(netip.MustParseAddr(a)) })
			if !answered && time.Now().After(late) {
				s.tb.Fatalf("%s did not answer ping within 20s: %v", a, err)
			}
		}
	}
}

// answers asks once, and waits a little.
func answers(a netip.Addr) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	socket, err := datagram.Echo(ctx, datagram.Options{}, a)
	if err != nil {
		return false, err
	}
	defer socket.Close()
	if err := socket.Write(socket.Request(0, nil)); err != nil {
		return false, err
	}
	end, _ := ctx.Deadline()
	m, err := socket.Read(ctx, end, make([]byte, 128))
	_, _, ok := socket.Reply(m.Data)
	return ok, err
}

// Link joins two spaces by a pair of virtual interfaces, each with this name and MTU, and with these addresses,
// such as "192.0.2.1/24". IPv6 ones are left out where an MTU is below 1280, which turns IPv6 off.
// An end that is given a link-local address has no other, which the kernel might speak from.
func Link(a, b *Space, nameA, nameB string, mtuA, mtuB int, addrsA, addrsB []string) {
	a.tb.Helper()
	a.IP("link add " + nameA + " type veth peer name " + nameB + " netns " + b.Name())
	for _, end := range []struct {
		s     *Space
		name  string
		mtu   int
		addrs []string
	}{{a, nameA, mtuA, addrsA}, {b, nameB, mtuB, addrsB}} {
		lines := []string{"link set " + end.name + " mtu " + strconv.Itoa(end.mtu)}
		if slices.ContainsFunc(end.addrs, func(addr string) bool { return strings.HasPrefix(addr, "fe80:") }) {
			lines = append(lines, "link set "+end.name+" addrgenmode none")
		}
		lines = append(lines, "link set "+end.name+" up")
		for _, addr := range end.addrs {
			switch six := strings.Contains(addr, ":"); {
			case !six:
				lines = append(lines, "addr add "+addr+" dev "+end.name)
			case min(mtuA, mtuB) >= 1280:
				lines = append(lines, "addr add "+addr+" dev "+end.name+" nodad")
			}
		}
		end.s.IP(lines...)
	}
}

// The addresses of a Path.
const (
	Near4, Near6     = "10.0.1.2", "fd00:1::2" // this end
	Router4, Router6 = "10.0.1.1", "fd00:1::1" // the router's, on this side
	Far4, Far6       = "10.0.2.2", "fd00:2::2" // the other end
)

// A Path leads from one host through a router to another. The interface of the hosts is eth0, those of the
// router are near0 and far0.
type Path struct{ Near, Router, Far *Space }

// NewPath makes one whose second link has these MTUs, on the router's end and on the far one. Where the far one
// is smaller, what is larger than it is lost without a word. There is IPv6 if both are 1280 at least.
func NewPath(tb testing.TB, routerMTU, farMTU int) *Path {
	tb.Helper()
	p := &Path{NewSpace(tb), NewSpace(tb), NewSpace(tb)}
	Link(p.Near, p.Router, "eth0", "near0", 1500, 1500, []string{Near4 + "/24", Near6 + "/64"}, []string{Router4 + "/24", Router6 + "/64"})
	Link(p.Router, p.Far, "far0", "eth0", routerMTU, farMTU, []string{"10.0.2.1/24", "fd00:2::1/64"}, []string{Far4 + "/24", Far6 + "/64"})
	p.Router.Sysctl("ipv4/ip_forward", "1")
	p.Router.Sysctl("ipv6/conf/all/forwarding", "1")
	p.Router.Sysctl("ipv4/icmp_ratelimit", "0") // objections are not to be left out for their number
	p.Router.Sysctl("ipv6/icmp/ratelimit", "0")
	p.Near.IP("route add default via "+Router4, "route add ::/0 via "+Router6)
	p.Far.IP("route add default via 10.0.2.1")
	p.Near.Await(Far4)
	if min(routerMTU, farMTU) >= 1280 {
		p.Far.IP("route add ::/0 via fd00:2::1")
		p.Near.Await(Far6)
	}
	return p
}
