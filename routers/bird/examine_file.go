package bird

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/bird/include"
)

// A file is what was found at the path of an include file.
type file struct {
	path   string
	real   string // what is written: path, or what that is a link to
	mode   fs.FileMode
	none   bool   // there is nothing yet
	text   []byte // of a regular file
	err    error  // it could not be looked at
	closed error  // why nothing can be put in its place: its directory

	entries map[netip.Prefix]include.Entry // of a file of ours
	damaged error                          // why that may not be all
}

// lookAt looks at an include file as this process may.
func lookAt(path string) file {
	f := file{path: path, real: path}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		f.real = real
	} else if target, err := os.Readlink(path); err == nil {
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		f.real = target
	}
	if err := unix.Faccessat(unix.AT_FDCWD, filepath.Dir(f.real), unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		f.closed = err
	}
	info, err := os.Stat(f.real)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.none = true
	case err != nil:
		f.err = err
	default:
		if f.mode = info.Mode(); f.mode.IsRegular() {
			f.text, f.err = include.ReadFile(f.real)
		}
	}
	f.parse()
	return f
}

// waitsAt says that BIRD, when it is to read the file, would wait for a writer, and do nothing else meanwhile.
func waitsAt(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&fs.ModeNamedPipe != 0
}

func (f *file) parse() {
	if f.entries = map[netip.Prefix]include.Entry{}; f.empty() || f.foreign() {
		return
	}
	var parsed include.File
	parsed, f.damaged = include.Parse(f.text)
	for _, e := range parsed.Entries {
		f.entries[e.Prefix] = e
	}
}

// examine says what keeps vouch from keeping the file, and whether there is one.
func (f file) examine() []routers.Finding {
	say := func(s routers.Severity, text, wayOut string) []routers.Finding {
		return []routers.Finding{{Severity: s, Subject: f.path, Text: text, WayOut: wayOut}}
	}
	const another = "set include in [router] to another file"
	var all []routers.Finding
	if f.real != f.path {
		text := "is a link to " + f.real + ", which is written in its place"
		if f.none {
			text = "is a link to " + f.real + ", which is not there"
		}
		all = say(routers.Notice, text, "")
	}
	switch {
	case f.err != nil:
		return append(all, say(routers.Failing, "cannot be read: "+f.err.Error(), "let "+whoAmI()+" read it")...)
	case f.mode.IsDir():
		return append(all, say(routers.Failing, "is a directory", another)...)
	case !f.none && !f.mode.IsRegular():
		return append(all, say(routers.Failing, "is no file, but "+f.mode.Type().String(), another)...)
	case f.foreign():
		return append(all, say(routers.Failing, "was not written by vouch, which leaves it alone: nothing can be announced or withdrawn by it",
			"move it away and let vouch write a new one, or "+another)...)
	case f.closed != nil:
		return append(all, f.unwritable())
	case f.none:
		return all // whether that is bad depends on who includes it
	case f.damaged != nil:
		return append(all, say(routers.Warning, "is damaged: "+f.damaged.Error(), "nothing is to be done: vouch writes it anew with the next change, after what bird says")...)
	}
	return append(all, say(routers.Fine, "is vouch's to write", "")...)
}

func (f file) empty() bool { return strings.TrimSpace(string(f.text)) == "" }

// foreign says that the file holds what vouch has not written. An empty one may be taken over.
func (f file) foreign() bool { return !f.none && !f.empty() && !include.Ours(f.text) }

// usable says that vouch can read what it wrote there, or write it.
func (f file) usable() bool {
	return f.err == nil && (f.none || f.mode.IsRegular()) && !f.foreign()
}

// has tells whether the file holds what the prefixes of a use go by.
func (f file) has(u use) bool {
	e, ok := f.entries[u.prefixes[0]]
	return ok && nameIn(e, u) == u.name
}

// unwritable says why the file cannot be replaced. It is replaced by renaming a new one, so that the
// directory counts, and not the file's own mode.
func (f file) unwritable() routers.Finding {
	dir := filepath.Dir(f.real)
	found := routers.Finding{Severity: routers.Failing, Subject: f.path,
		Text:   fmt.Sprintf("cannot be replaced by %s: directory %s: %v", whoAmI(), dir, f.closed),
		WayOut: "let it write to " + dir + ", where a new file is made and renamed"}
	switch {
	case errors.Is(f.closed, fs.ErrNotExist):
		found.WayOut = "make the directory"
	case errors.Is(f.closed, unix.EROFS):
		found.WayOut = "mount it read-write; under systemd write ReadWritePaths=" + dir + " into a drop-in of vouch.service (systemctl edit vouch)"
	}
	return found
}

// whoAmI names the user of this process.
func whoAmI() string {
	id := strconv.Itoa(os.Geteuid())
	if u, err := user.LookupId(id); err == nil {
		return "user " + u.Username
	}
	return "user " + id
}

// filesOfNobody looks at the include files of a BIRD that does not answer: it may be they that keep it from
// starting.
func filesOfNobody(o Options, ps []netip.Prefix) []routers.Finding {
	if o.Method != MethodInclude {
		return nil
	}
	paths := []string{o.Include}
	if o.Include6 != "" && !ps[0].Addr().Is4() {
		paths[0] = o.Include6
	}
	var all []routers.Finding
	for _, path := range paths {
		f := lookAt(path)
		all = append(all, f.examine()...)
		if f.none {
			all = append(all, routers.Finding{Severity: routers.Warning, Subject: path, Text: "is not there: a bird.conf that includes it keeps bird from starting",
				WayOut: "start vouch: it writes the file, with everything withdrawn, while bird is away"})
		}
	}
	return all
}

// lost says that the file is not there though bird's configuration includes it.
func (f file) lost(refusal error) bool {
	var said *ctl.Refusal
	return f.none && errors.As(refusal, &said) && said.Code == ctl.ConfigurationFailed && strings.Contains(said.Text, f.path)
}

// examineTaken says what is to be thought of bird's answer to `configure check`, nil for yes, beside the
// file's own standing.
func (f file) examineTaken(refusal error, subject string) []routers.Finding {
	var said *ctl.Refusal
	errors.As(refusal, &said)
	switch {
	case refusal == nil && f.none:
		return []routers.Finding{{Severity: routers.Notice, Subject: f.path, Text: "is not there yet, and bird.conf does not include it: vouch writes it when it runs"}}
	case refusal == nil, said == nil, said.Code != ctl.ConfigurationFailed:
		return nil // what else it may be is told elsewhere
	case f.lost(refusal):
		return []routers.Finding{{Severity: routers.Failing, Subject: f.path,
			Text:   "is not there, though bird.conf includes it: bird takes no configuration without it, and would not start (" + said.Text + ")",
			WayOut: "start vouch: it writes the file"}}
	}
	return []routers.Finding{{Severity: routers.Failing, Subject: subject,
		Text:   "would not start with its configuration as it is in the files, nor takes it: " + said.Text,
		WayOut: "mend it until `birdc configure check` says OK: until then no change of the include file comes into force"}}
}
