package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"vouch/agent/internal/decide"
	"vouch/agent/internal/health"
	"vouch/agent/internal/owner"
)

// format is the version of the state file; a file of another version is set aside.
const format = 1

// maxFile bounds what is read: a larger file is not one of ours.
const maxFile = 16 << 20

// How many events go over a restart: of all, and of each kind and level at least.
const (
	keepInFile       = 200
	keepOfEachInFile = 20
)

// Saved is what goes over a restart of the agent.
type Saved struct {
	Place    string          // where the prefixes were announced, such as "address on lo"
	Router   json.RawMessage // the table [router], by which that place can be read; nil: not known
	Services map[string]SavedService
	Events   []Event
}

// A SavedService is one service's part of Saved.
type SavedService struct {
	Prefixes []netip.Prefix          // all that are managed, or still to be withdrawn
	Symbols  map[netip.Prefix]string // what the daemon's configuration calls those that have a name there
	State    health.State            // of the checks that can withdraw
	Soft     health.State            // of those that can only degrade
	Unrisen  bool                    // no verdict yet since the boot
	Drain    *decide.Drain
}

// The file's own shape, apart from the types in memory, because its times differ.
type file struct {
	Format   int                    `json:"format"`
	BootID   string                 `json:"boot_id"`
	Saved    time.Time              `json:"saved"`
	Place    string                 `json:"place"`
	Router   json.RawMessage        `json:"router,omitempty"` // not in the files of older versions
	Services map[string]fileService `json:"services"`
	Events   []Event                `json:"events"`
}

type fileService struct {
	Prefixes []netip.Prefix          `json:"prefixes"`
	Symbols  map[netip.Prefix]string `json:"symbols,omitempty"`
	fileState
	Soft    *fileState `json:"soft,omitempty"` // not in the files of versions that could not degrade
	Unrisen bool       `json:"unrisen,omitempty"`
	Drain   *fileDrain `json:"drain,omitempty"`
}

type fileState struct {
	Verdict      health.Verdict `json:"verdict"`
	Good         int            `json:"good"`
	Bad          int            `json:"bad"`
	Hold         time.Duration  `json:"hold_ns,omitempty"`
	Since        *stamp         `json:"since,omitempty"`
	LastRound    *stamp         `json:"last_round,omitempty"`
	LastCounted  *stamp         `json:"last_counted,omitempty"`
	UnknownSince *stamp         `json:"unknown_since,omitempty"`
	HoldUntil    *stamp         `json:"hold_until,omitempty"`
}

func (c Clock) encode(st health.State) fileState {
	return fileState{Verdict: st.Verdict, Good: st.Good, Bad: st.Bad, Hold: st.Hold,
		Since: c.stamp(st.Since), LastRound: c.stamp(st.LastRound), LastCounted: c.stamp(st.LastCounted),
		UnknownSince: c.stamp(st.UnknownSince), HoldUntil: c.stamp(st.HoldUntil)}
}

// decode gives back a state of the same boot.
func (c Clock) decode(fs fileState) health.State {
	return health.State{Verdict: fs.Verdict, Good: fs.Good, Bad: fs.Bad, Hold: fs.Hold,
		Since: c.time(fs.Since, true), LastRound: c.time(fs.LastRound, true), LastCounted: c.time(fs.LastCounted, true),
		UnknownSince: c.time(fs.UnknownSince, true), HoldUntil: c.time(fs.HoldUntil, true)}
}

type fileDrain struct {
	Since  *stamp `json:"since"`
	Until  *stamp `json:"until,omitempty"`
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

// Encode gives the file's content for s at the moment c.
func Encode(s Saved, c Clock) ([]byte, error) {
	f := file{Format: format, BootID: c.BootID, Saved: c.Now, Place: s.Place, Router: s.Router, Services: map[string]fileService{},
		Events: latest(s.Events, keepInFile, keepOfEachInFile)}
	for name, sv := range s.Services {
		fs := fileService{Prefixes: sv.Prefixes, Symbols: sv.Symbols, fileState: c.encode(sv.State), Unrisen: sv.Unrisen}
		if sv.Soft != (health.State{}) {
			soft := c.encode(sv.Soft)
			fs.Soft = &soft
		}
		if d := sv.Drain; d != nil {
			fs.Drain = &fileDrain{Since: c.stamp(d.Since), Until: c.stamp(d.Until), By: d.By, Reason: d.Reason}
		}
		f.Services[name] = fs
	}
	return json.MarshalIndent(f, "", "  ")
}

// Decode reads a file's content. Within the same boot everything comes back; after another boot
// only the drains do, because a verdict from before a boot proves nothing, and every service has to
// rise again. sameBoot tells which it was.
func Decode(b []byte, c Clock) (s Saved, sameBoot bool, err error) {
	var f file
	dec := json.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(&f); err != nil {
		return Saved{}, false, fmt.Errorf("not a state file: %w", err)
	}
	if f.Format != format {
		return Saved{}, false, fmt.Errorf("format %d is not %d", f.Format, format)
	}
	sameBoot = f.BootID != "" && f.BootID == c.BootID
	s = Saved{Place: f.Place, Router: f.Router, Services: map[string]SavedService{}, Events: f.Events}
	for name, fs := range f.Services {
		sv := SavedService{Prefixes: fs.Prefixes, Symbols: fs.Symbols, Unrisen: true}
		if sameBoot {
			sv.Unrisen, sv.State = fs.Unrisen, c.decode(fs.fileState)
			if fs.Soft != nil {
				sv.Soft = c.decode(*fs.Soft)
			}
		}
		if d := fs.Drain; d != nil {
			sv.Drain = &decide.Drain{Since: c.time(d.Since, sameBoot), Until: c.time(d.Until, sameBoot), By: d.By, Reason: d.Reason}
		}
		s.Services[name] = sv
	}
	return s, sameBoot, nil
}

// Loaded is what was found at start.
type Loaded struct {
	Saved
	// SameBoot says that an agent ran earlier in this boot, so that what is announced now was
	// announced by a service that had passed its checks. Otherwise every service has to rise first.
	SameBoot bool
	// Aside is where a file that could not be understood was moved to, and Why.
	Aside string
	Why   error
}

// Load reads the state file. A missing one is no error; one that cannot be understood is renamed
// and reported in the result; one that cannot be read at all is the error, beside a result that only
// says whether it was of this boot.
func Load(path string, c Clock) (Loaded, error) {
	b, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Loaded{}, nil
	}
	if err != nil {
		return Loaded{SameBoot: diesWithBoot(path)}, fmt.Errorf("state file: %w", err)
	}
	s, same, err := Decode(b, c)
	if err == nil {
		return Loaded{Saved: s, SameBoot: same}, nil
	}
	l := Loaded{Why: fmt.Errorf("state file %s: %w", path, err), Aside: path + ".corrupt", SameBoot: diesWithBoot(path)}
	if err := os.Rename(path, l.Aside); err != nil {
		return Loaded{SameBoot: l.SameBoot}, fmt.Errorf("state file: set aside: %w", err)
	}
	return l, nil
}

// read gives the file's content, or of one that is too large the beginning, which cannot be decoded.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// diesWithBoot tells whether what is in the file's directory cannot be older than this boot.
func diesWithBoot(path string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(path), &st); err != nil {
		return false
	}
	return st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC
}

// Write replaces the state file whole, or leaves it as it was.
func Write(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	if err := replace(path, append(b, '\n')); err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	return nil
}

// pending gives the new file beside the old one, whatever TMPDIR is: elsewhere it may be forbidden to make one, or
// to move it from there.
func pending(path string) (*renameio.PendingFile, error) {
	return renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o640))
}

func replace(path string, b []byte) error {
	t, err := pending(path)
	if err != nil {
		return err
	}
	defer func() { _ = t.Cleanup() }()
	if err := owner.Share(t.File); err != nil {
		return err
	}
	if _, err := t.Write(b); err != nil {
		return err
	}
	return t.CloseAtomicallyReplace()
}
