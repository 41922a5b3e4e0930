package frr

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A networkd is what is known of systemd-networkd on this node: it deletes nexthop objects that are not its
// own when it starts and when it configures a link anew, unless it is told to leave them.
type networkd struct {
	ran    bool // since boot
	major  int  // of systemd; 0: not known
	leaves bool // ManageForeignNextHops=no, which it knows from 256 on
}

// leavesFrom is the first systemd that can be told to leave nexthop objects alone.
const leavesFrom = 256

func (n networkd) deletes() bool { return n.ran && !n.obeys() }

// obeys tells whether it is told to leave them, and understands that.
func (n networkd) obeys() bool { return n.leaves && (n.major == 0 || n.major >= leavesFrom) }

// text says what that means for the nexthop objects.
func (n networkd) text() string {
	switch {
	case !n.ran:
		return "systemd-networkd, which would, has not run here since boot"
	case n.obeys():
		return "systemd-networkd, which would, is told to leave them (ManageForeignNextHops=no)"
	case n.leaves:
		return fmt.Sprintf("systemd-networkd has run here since boot and may do so: ManageForeignNextHops=no is not known to systemd %d", n.major)
	}
	return "systemd-networkd has run here since boot and may do so (ManageForeignNextHops is not off)"
}

// wayOut is what helps beside having no such objects.
func (n networkd) wayOut() string {
	if n.major != 0 && n.major < leavesFrom {
		return ""
	}
	return "; or put `ManageForeignNextHops=no` into [Network] of a file in /etc/systemd/networkd.conf.d (systemd 256 and later)"
}

// readNetworkd looks at the files below root. What cannot be read is taken for not there.
func readNetworkd(root string) networkd {
	_, err := os.Stat(filepath.Join(root, "run/systemd/netif/state"))
	n := networkd{ran: err == nil}
	for _, pattern := range []string{"usr/lib/systemd/libsystemd-shared-*.so", "usr/lib/*/systemd/libsystemd-shared-*.so"} {
		files, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, f := range files {
			_, _ = fmt.Sscanf(filepath.Base(f), "libsystemd-shared-%d", &n.major)
		}
	}
	for _, path := range networkdFiles(root) {
		if value := networkdValue(path); value != "" {
			n.leaves = slices.Contains([]string{"no", "false", "off", "0", "n", "f"}, strings.ToLower(value))
		}
	}
	return n
}

// networkdFiles gives its configuration in the order in which later files count more: the main file, of the
// first directory that has it, then the others by their names, each of the first directory that has it.
func networkdFiles(root string) []string {
	main, parts := "", map[string]string{}
	for _, dir := range []string{"usr/lib/systemd", "usr/local/lib/systemd", "run/systemd", "etc/systemd"} {
		path := filepath.Join(root, dir, "networkd.conf")
		if _, err := os.Stat(path); err == nil {
			main = path
		}
		files, _ := filepath.Glob(path + ".d/*.conf")
		for _, f := range files {
			parts[filepath.Base(f)] = f
		}
	}
	var all []string
	if main != "" {
		all = append(all, main)
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		all = append(all, parts[name])
	}
	return all
}

// networkdValue is what one file has for ManageForeignNextHops, empty when nothing.
func networkdValue(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	value, section := "", ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			section = line
		}
		if key, v, ok := strings.Cut(line, "="); ok && section == "[Network]" && strings.TrimSpace(key) == "ManageForeignNextHops" {
			value = cmp.Or(strings.TrimSpace(v), value)
		}
	}
	return value
}
