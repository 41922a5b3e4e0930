package lab

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Release is one build of a routing daemon: this machine's own, or one in the cache directory that
// contrib/lab/roots fills. The zero value is FRRHost. Its methods may be called concurrently.
type Release struct {
	name     string
	bird     bool
	cache    string // where it is in the cache; empty: it is this machine's own
	root     bool   // what is there is a whole Debian, to be entered
	programs string // the directory of the daemons, below that
	client   string // vtysh or birdc
}

// The releases. The versions are those of Debian 12, whose package of BIRD 1 cannot be installed beside
// that of BIRD 2, of Debian 13 in a directory, and the oldest BIRD 2 that is met in the field, of Debian 11.
var (
	FRRHost  = Release{name: "frr", programs: frrPrograms, client: "vtysh"}                                                        // 8.4.4
	FRR10    = Release{name: "frr10", cache: "trixie", root: true, programs: frrPrograms, client: "vtysh"}                         // 10.3
	BIRD1    = Release{name: "bird1", bird: true, cache: "bird1", programs: "/usr/sbin", client: "/usr/sbin/birdc"}                // 1.6.8: bird and bird6
	BIRD207  = Release{name: "bird207", bird: true, cache: "bird207", programs: "/usr/sbin", client: "/usr/sbin/birdc"}            // 2.0.7
	BIRDHost = Release{name: "bird2", bird: true, programs: "/usr/sbin", client: "/usr/sbin/birdc"}                                // 2.0.12
	BIRD217  = Release{name: "bird217", bird: true, cache: "trixie", root: true, programs: "/usr/sbin", client: "/usr/sbin/birdc"} // 2.17.6
	BIRD3    = Release{name: "bird3", bird: true, cache: "trixie", root: true, programs: "/opt/bird3/usr/sbin", client: "/opt/bird3/usr/sbin/birdc"}
)

// FRRs and BIRDs are all releases of each daemon, the oldest first.
var (
	FRRs  = []Release{FRRHost, FRR10}
	BIRDs = []Release{BIRD1, BIRD207, BIRDHost, BIRD217, BIRD3}
)

// String is a short name, such as "bird217", that does for a subtest's name.
func (r Release) String() string { return r.orHost().name }

func (r Release) orHost() Release {
	if r.name == "" {
		return FRRHost
	}
	return r
}

// IsBIRD says that it is BIRD; otherwise it is FRR.
func (r Release) IsBIRD() bool { return r.bird }

// Split says that each family has a daemon of its own, as with BIRD 1.
func (r Release) Split() bool { return r == BIRD1 }

// EmptySet says that a set of prefixes may be empty, as since BIRD 2.0.11.
func (r Release) EmptySet() bool { return r != BIRD1 && r != BIRD207 }

// cacheDir holds the releases that are not this machine's own.
func cacheDir() string { return cmp.Or(os.Getenv("VOUCH_LAB_CACHE"), "/var/cache/vouch-lab") }

// file is where a file of the release is to be found from outside.
func (r Release) file(path string) string {
	if r.cache == "" {
		return path
	}
	return filepath.Join(cacheDir(), r.cache, path)
}

// chroot is the directory to enter, empty for none.
func (r Release) chroot() string {
	if r.root {
		return r.file("")
	}
	return ""
}

// program is the path of a daemon as it is where the daemon runs.
func (r Release) program(daemon string) string {
	if r.root {
		return filepath.Join(r.programs, daemon)
	}
	return r.file(filepath.Join(r.programs, daemon))
}

// daemons are the programs that a lab may want of the release.
func (r Release) daemons() []string {
	switch {
	case !r.bird:
		return []string{"zebra", "ospfd", "ospf6d", "bgpd", "staticd"}
	case r.Split():
		return []string{"bird", "bird6"}
	}
	return []string{"bird"}
}

// has says whether the release has a daemon.
func (r Release) has(daemon string) bool {
	_, err := os.Stat(r.file(filepath.Join(r.programs, daemon)))
	return err == nil
}

func (r Release) missing() []string {
	var missing []string
	for _, d := range r.daemons() {
		if !r.has(d) {
			missing = append(missing, r.file(filepath.Join(r.programs, d)))
		}
	}
	return missing
}

// enter goes to a root with the lab's directories in it, and runs what follows there. With $run, this is
// what /run/frr is there: FRR 10 puts sockets into it that no option moves. All mounts end with the process.
const enter = `root=$1 run=$2; shift 2
if [ -n "$run" ]; then
	mkdir -p "$root/run/frr"
	mount --bind "$run" "$root/run/frr"
fi
[ -n "$root" ] || exec "$@"
mkdir -p "$root` + base + `"
mount --bind ` + base + ` "$root` + base + `"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
exec chroot "$root" "$@"`

// command gives the command line that runs a program of the release, with run as its /run/frr if given.
func (r Release) command(run string, args ...string) []string {
	if r.chroot() == "" && run == "" {
		return args
	}
	return append([]string{"unshare", "--mount", "sh", "-ec", enter, "enter", r.chroot(), run}, args...)
}

// own makes the release's own user for its daemons ("frr", "bird") the owner of files.
func (r Release) own(user string, paths ...string) error {
	text, err := os.ReadFile(filepath.Join("/", r.chroot(), "etc/passwd"))
	if err != nil {
		return err
	}
	uid, gid, ok := passwd(string(text), user)
	if !ok {
		return fmt.Errorf("%s has no user %s", r, user)
	}
	for _, p := range paths {
		if err := os.Chown(p, uid, gid); err != nil {
			return err
		}
	}
	return nil
}

// passwd finds a user's ids in the text of /etc/passwd.
func passwd(text, user string) (uid, gid int, ok bool) {
	for line := range strings.Lines(text) {
		f := strings.Split(line, ":")
		if len(f) < 4 || f[0] != user {
			continue
		}
		uid, err := strconv.Atoi(f[2])
		gid, err2 := strconv.Atoi(f[3])
		return uid, gid, err == nil && err2 == nil
	}
	return 0, 0, false
}

// Version asks the release what it is, such as "10.3" or "2.0.12".
func (r Release) Version(ctx context.Context) (string, error) {
	r = r.orHost()
	args := []string{r.program(r.daemons()[0]), "--version"}
	if root := r.chroot(); root != "" {
		args = append([]string{"chroot", root}, args...)
	}
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("lab: version of %s: %w: %s", r, err, out)
	}
	fields := strings.Fields(string(out))
	if i := slices.Index(fields, "version"); i >= 0 && i+1 < len(fields) {
		return fields[i+1], nil
	}
	return "", fmt.Errorf("lab: version of %s: it said %q", r, out)
}

// FRRVersion is the version of the FRR on this machine, such as "8.4.4".
func FRRVersion(ctx context.Context) (string, error) { return FRRHost.Version(ctx) }
