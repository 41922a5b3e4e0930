package file

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"vouch/checks"
)

// mountinfo tells what this process sees (proc_pid_mountinfo(5)).
const mountinfo = "/proc/self/mountinfo"

// hidden says whether systemd has put something of its own where the path leads to, for this process only.
func (s *Spec) hidden() []checks.Problem {
	mounts, err := os.ReadFile(mountinfo)
	if err != nil {
		return nil // nothing can be said
	}
	p := checks.Problem{Key: "path", Got: s.Path}
	switch root, point := mountOf(string(mounts), filepath.Clean(s.Path)); {
	case strings.Contains(root, "/systemd-private-"): // PrivateTmp=
		p.What = "is not what others see: this process has a " + point + " of its own (PrivateTmp=yes of its unit)"
		p.WayOut = "put it elsewhere, such as below /run, or give the unit a drop-in with PrivateTmp=no"
	case strings.HasSuffix(root, "/systemd/inaccessible/dir"): // ProtectHome=, InaccessiblePaths=
		p.What = "cannot be seen: " + point + " is hidden from this process (ProtectHome=yes or InaccessiblePaths= of its unit)"
		p.WayOut = "put it elsewhere, such as below /run, or give the unit a drop-in with ProtectHome=read-only"
	default:
		return nil
	}
	return []checks.Problem{p}
}

// mountOf gives the mount that a path is on: what of its file system is seen there, and where. Of those on one
// another the last one counts.
func mountOf(mounts, path string) (root, point string) {
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line) // ID, parent, device, root, mount point, …
		if len(f) < 5 {
			continue
		}
		at := unescape(f[4])
		if (path == at || strings.HasPrefix(path, strings.TrimSuffix(at, "/")+"/")) && len(at) >= len(point) {
			root, point = unescape(f[3]), at
		}
	}
	return root, point
}

// unescape reads the octal escapes of what would end a field.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
