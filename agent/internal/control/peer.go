package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/user"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A peer is the process at the other end, as the kernel recorded it when it connected.
type peer struct {
	uid    int
	groups []int // effective and supplementary
	err    error // it could not be told
}

type peerKey struct{}

// withPeer is an http.Server's ConnContext.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, readPeer(c))
}

func peerOf(ctx context.Context) peer {
	if p, ok := ctx.Value(peerKey{}).(peer); ok {
		return p
	}
	return peer{uid: -1, err: errors.New("not a connection of the control socket")}
}

func readPeer(c net.Conn) peer {
	uc, ok := c.(*net.UnixConn)
	if !ok {
		return peer{uid: -1, err: errors.New("not a unix socket")}
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return peer{uid: -1, err: err}
	}
	p := peer{uid: -1}
	err = raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, p.err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); p.err == nil {
			p.uid, p.groups = int(cred.Uid), append(peerGroups(fd), int(cred.Gid))
		}
	})
	p.err = errors.Join(p.err, err)
	return p
}

// peerGroups reads SO_PEERGROUPS (Linux 4.13): the process's own supplementary groups, which hold
// also where a static binary cannot ask LDAP. Kernels without it give none.
func peerGroups(fd uintptr) []int {
	var gids [1024]uint32
	size := uint32(len(gids) * 4)
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
		uintptr(unsafe.Pointer(&gids[0])), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return nil
	}
	out := make([]int, 0, size/4)
	for _, g := range gids[:size/4] {
		out = append(out, int(g))
	}
	return out
}

// name is the user's name, or "uid N" for one that has none.
func (p peer) name() string {
	if u, err := user.LookupId(strconv.Itoa(p.uid)); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", p.uid)
}

// mayChange says why the peer may not change anything, or nil when it may: root, the agent's own
// user, and the members of the admin group, by the process's groups or by the group database.
func mayChange(p peer, adminGroup string, own int) error {
	if p.err != nil {
		return fmt.Errorf("who asks could not be told, so nothing is changed: %w", p.err)
	}
	if p.uid == 0 || p.uid == own {
		return nil
	}
	who := fmt.Sprintf("uid %d (%s)", p.uid, p.name())
	if adminGroup == "" {
		return fmt.Errorf("%s may read but not change anything: use sudo, or set control.admin_group in the configuration", who)
	}
	gid, err := groupID(adminGroup)
	if err != nil {
		return fmt.Errorf("%s may read but not change anything: control.admin_group: %w", who, err)
	}
	if slices.Contains(p.groups, gid) || inDatabase(p.uid, gid) {
		return nil
	}
	if gid == 0 {
		return fmt.Errorf("%s may read but not change anything: use sudo, or let control.admin_group name another group than %s", who, adminGroup)
	}
	return fmt.Errorf("%s may read but not change anything: join group %s, or use sudo", who, adminGroup)
}

// inDatabase says whether /etc/group makes uid a member of gid, also for a session that is older.
func inDatabase(uid, gid int) bool {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return false
	}
	ids, err := u.GroupIds()
	return err == nil && slices.Contains(ids, strconv.Itoa(gid))
}

// groupID finds a group by name or number.
func groupID(name string) (int, error) {
	g, err := user.LookupGroup(name)
	if err == nil {
		name = g.Gid
	}
	id, convErr := strconv.Atoi(name)
	if convErr != nil || id < 0 {
		return 0, fmt.Errorf("there is no group %q: create it (groupadd --system %s) or name another", name, name)
	}
	return id, nil
}
