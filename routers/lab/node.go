package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// A Node is one namespace of a network: a host or a router. Its methods may be called concurrently.
type Node struct {
	net  *Net
	name string
	dir  string
}

// Node adds a namespace: lo up, forwarding on, no duplicate address detection (an IPv6 address can
// be used at once), flows spread over equal paths by addresses and ports.
func (n *Net) Node(name string) (*Node, error) {
	nd := &Node{net: n, name: name, dir: filepath.Join(n.dir, name)}
	if err := os.Mkdir(nd.dir, 0o755); err != nil {
		return nil, fmt.Errorf("lab: node %s: %w", name, err)
	}
	if out, err := exec.Command("ip", "netns", "add", nd.Namespace()).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("lab: ip netns add %s: %w: %s", nd.Namespace(), err, out)
	}
	if err := nd.ip(context.Background(), "link", "set", "lo", "up"); err != nil {
		return nil, err
	}
	return nd, nd.sysctl(map[string]string{
		"net/ipv4/ip_forward":                "1",
		"net/ipv6/conf/all/forwarding":       "1",
		"net/ipv6/conf/all/accept_dad":       "0",
		"net/ipv6/conf/default/accept_dad":   "0",
		"net/ipv4/fib_multipath_hash_policy": "1",
		"net/ipv6/fib_multipath_hash_policy": "1",
	})
}

// Name is the node's name in its network.
func (nd *Node) Name() string { return nd.name }

// Namespace is the name that ip netns knows the node by.
func (nd *Node) Namespace() string { return namespace(nd.net.id, nd.name) }

// Dir is the node's directory: the logs of its processes, and what daemons need.
func (nd *Node) Dir() string { return nd.dir }

// Link joins two nodes by a pair of interfaces with the given addresses ("10.0.1.1/30"), and sets
// them up. An interface that is given a link-local address has that one only.
func (n *Net) Link(a *Node, aIf string, aAddrs []string, b *Node, bIf string, bAddrs []string) error {
	ctx := context.Background()
	err := a.ip(ctx, "link", "add", aIf, "type", "veth", "peer", "name", bIf, "netns", b.Namespace())
	if err != nil {
		return err
	}
	return errors.Join(a.up(ctx, aIf, aAddrs), b.up(ctx, bIf, bAddrs))
}

// up gives an interface its addresses and sets it up.
func (nd *Node) up(ctx context.Context, iface string, addrs []string) error {
	for _, a := range addrs {
		if strings.HasPrefix(a, "fe80:") {
			if err := nd.ip(ctx, "link", "set", iface, "addrgenmode", "none"); err != nil {
				return err
			}
		}
		if err := nd.ip(ctx, "addr", "add", a, "dev", iface); err != nil {
			return err
		}
	}
	return nd.ip(ctx, "link", "set", iface, "up")
}

// Address adds or deletes ("add", "del") an address on an interface, as an operator would by hand.
func (nd *Node) Address(ctx context.Context, action, prefix, iface string) error {
	return nd.ip(ctx, "addr", action, prefix, "dev", iface)
}

// Do runs fn on a thread inside the node's namespace, and returns what fn returns. Sockets opened
// there belong to the namespace for their whole life, also when used elsewhere; goroutines that fn
// starts do not run inside. When fn ends its goroutine, as by t.Fatal, Do ends that of its caller.
func (nd *Node) Do(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		defer close(done)
		runtime.LockOSThread()
		back, err := inside("/run/netns/"+nd.Namespace(), fn)
		if back { // otherwise the thread ends with the goroutine: it is of no use to others
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	err, returned := <-done
	if !returned {
		runtime.Goexit()
	}
	return err
}

// inside runs fn in the namespace at path and says whether the thread came back from there.
func inside(path string, fn func() error) (back bool, err error) {
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return true, fmt.Errorf("lab: %w", err)
	}
	defer home.Close()
	there, err := os.Open(path)
	if err != nil {
		return true, fmt.Errorf("lab: %w", err)
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return true, fmt.Errorf("lab: enter %s: %w", path, err)
	}
	err = fn()
	return unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil, err
}

// Run runs a program inside the node until it ends or ctx does, and gives what it wrote to both
// outputs. An exit status other than 0 is an error that holds the output.
func (nd *Node) Run(ctx context.Context, args ...string) (string, error) {
	var out strings.Builder
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := nd.Do(cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return out.String(), fmt.Errorf("lab: %s: %s: %w: %s", nd.name, strings.Join(args, " "), err, out.String())
	}
	return out.String(), nil
}

func (nd *Node) ip(ctx context.Context, args ...string) error {
	_, err := nd.Run(ctx, append([]string{"ip"}, args...)...)
	return err
}

// sysctl sets kernel parameters of the namespace, named by their paths under /proc/sys.
func (nd *Node) sysctl(values map[string]string) error {
	return nd.Do(func() error {
		for path, v := range values {
			if err := os.WriteFile(filepath.Join("/proc/sys", path), []byte(v), 0); err != nil {
				return fmt.Errorf("lab: %s: %w", nd.name, err)
			}
		}
		return nil
	})
}
