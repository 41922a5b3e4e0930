package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"vouch/checks"
	"vouch/checks/payload"
)

// traced is how much of a content a trace shows, in bytes.
const traced = 4 << 10

type checker struct {
	path     string
	absent   bool // it must not be there
	maxAge   time.Duration
	contains []byte
	match    *payload.Pattern
	kernel   *kernel
	looks    *table
}

var (
	_ checks.Checker = (*checker)(nil)
	_ checks.Watcher = (*checker)(nil)
)

// String gives the path.
func (c *checker) String() string { return c.path }

// reads says whether the content matters.
func (c *checker) reads() bool { return len(c.contains) > 0 || c.match != nil }

// A finding is what a look at the path gave.
type finding struct {
	info    fs.FileInfo // of what it leads to
	content []byte      // if that was asked for: the first 64 KiB
	more    bool        // it is longer
	err     error
	at      string // with err: how far the path could be followed
}

// Check looks at the file once.
func (c *checker) Check(ctx context.Context) error {
	f, ok := c.looks.look(ctx, view{c.path, c.reads()})
	if !ok {
		return c.late(ctx)
	}
	f.trace(ctx, c.path)
	return c.judge(ctx, f, time.Now())
}

// late says what it means that there is no finding.
func (c *checker) late(ctx context.Context) *checks.Failure {
	f := &checks.Failure{Reason: checks.ReasonTimeout, Detail: "its file system does not answer in time"}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		f.Reason, f.Detail, f.Err = checks.ReasonUnknown, "broken off", ctx.Err()
	case c.absent:
		f.Reason = checks.ReasonUnknown
	}
	return f
}

// lookUp looks at what the path leads to, and reads it if asked.
func lookUp(path string, read bool) (f finding) {
	if f.info, f.err = os.Stat(path); f.err != nil {
		t := walk(path)
		f.at = t.end
		return f
	}
	if read && f.info.Mode().IsRegular() {
		f.content, f.more, f.err = head(path)
		f.at = path
	}
	return f
}

// head reads the first 64 KiB of a regular file. What lies there may be another file by now, and opening a
// pipe must not wait for who writes it.
func head(path string) (content []byte, more bool, err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, false, errors.Join(err, errChanged)
	}
	content, err = io.ReadAll(io.LimitReader(file, maxRead+1))
	if len(content) > maxRead {
		content, more = content[:maxRead], true
	}
	return content, more, err
}

var errChanged = errors.New("it was replaced while it was read")

// judge says what is wrong with what was found, or nil. That something is not there is not known of a path
// that cannot be followed to its end. The error is a *checks.Failure.
func (c *checker) judge(ctx context.Context, f finding, now time.Time) error {
	switch {
	case missing(f.err):
		if c.absent {
			return nil
		}
		return &checks.Failure{Reason: checks.ReasonAbsent, Detail: f.obstacle(c.path)}
	case denied(f.err), f.err != nil && (c.absent || checks.Starved(f.err)), errors.Is(f.err, errChanged):
		return &checks.Failure{Reason: checks.ReasonUnknown, Detail: f.obstacle(c.path)}
	case f.err != nil:
		return &checks.Failure{Reason: checks.ReasonError, Detail: f.obstacle(c.path)}
	case c.absent:
		return &checks.Failure{Reason: checks.ReasonMismatch, Detail: "is there, and must not be"}
	}
	if failure := c.judgeAge(f.info.ModTime(), now); failure != nil {
		return failure
	}
	if !c.reads() {
		return nil
	}
	return c.judgeContent(ctx, f)
}

// judgeAge wants the time of the last change to be near now. One that lies ahead proves as little as an
// old one: either clock may be wrong.
func (c *checker) judgeAge(modified, now time.Time) *checks.Failure {
	at := modified.UTC().Format(time.RFC3339)
	switch age := now.Sub(modified); {
	case c.maxAge == 0:
		return nil
	case age >= c.maxAge:
		return &checks.Failure{Reason: checks.ReasonUnusable, Detail: fmt.Sprintf("was last modified at %s, %s ago or longer", at, c.maxAge)}
	case age < -c.maxAge:
		return &checks.Failure{Reason: checks.ReasonUnusable, Detail: fmt.Sprintf("was modified at %s, which is to come: a clock is wrong", at)}
	}
	return nil
}

func (c *checker) judgeContent(ctx context.Context, f finding) error {
	if !f.info.Mode().IsRegular() {
		return &checks.Failure{Reason: checks.ReasonUnusable, Detail: fmt.Sprintf("is %s, which has no content to look at", kindOf(f.info))}
	}
	want, found, err := "does not contain "+excerpt(c.contains), bytes.Contains(f.content, c.contains), error(nil)
	if c.match != nil {
		want = "does not match " + strconv.Quote(c.match.String())
		found, err = c.match.Match(ctx, f.content)
	}
	if found || err != nil {
		return err
	}
	size := fmt.Sprintf("its %d bytes are", len(f.content))
	if f.more {
		size = "its first 64 KiB are"
	}
	return &checks.Failure{Reason: checks.ReasonMismatch, Detail: fmt.Sprintf("%s: %s %s", want, size, excerpt(f.content))}
}

// missing says whether err means that nothing is there.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// denied says whether err means that this process may not look.
func denied(err error) bool { return errors.Is(err, fs.ErrPermission) }

// obstacle says where the way to path ends, and why.
func (f finding) obstacle(path string) string {
	err := f.err
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		err = e.Err
	}
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Sprintf("is not there: %s is not a directory", f.at)
	case missing(err) && f.at != filepath.Clean(path) && f.at != "":
		return "is not there: it would lead to " + f.at
	case missing(err):
		return "is not there"
	case denied(err) && f.info != nil:
		return "cannot be read: " + err.Error()
	case denied(err):
		return fmt.Sprintf("cannot be looked up: %v: the agent's user may not enter %s", err, filepath.Dir(f.at))
	}
	return "cannot be looked at: " + err.Error()
}

// trace tells what was found.
func (f finding) trace(ctx context.Context, path string) {
	if !checks.Traced(ctx) {
		return
	}
	checks.Tracef(ctx, checks.Sent, "stat %s", path)
	if f.info == nil {
		checks.Tracef(ctx, checks.Got, "%v", f.err)
		return
	}
	checks.Tracef(ctx, checks.Got, "%s, %d bytes, %s, modified %s", kindOf(f.info), f.info.Size(), f.info.Mode(), f.info.ModTime().UTC().Format(time.RFC3339Nano))
	if f.content != nil {
		checks.Tracef(ctx, checks.Got, "%s", f.content[:min(len(f.content), traced)])
	}
	if f.err != nil {
		checks.Tracef(ctx, checks.Note, "%v", f.err)
	}
}

// kindOf names what a file is.
func kindOf(info fs.FileInfo) string {
	switch m := info.Mode(); {
	case m.IsRegular():
		return "a regular file"
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// excerpt quotes the beginning.
func excerpt(b []byte) string {
	const most = 60
	if len(b) > most {
		return strconv.Quote(string(b[:most])) + "…"
	}
	return strconv.Quote(string(b))
}
