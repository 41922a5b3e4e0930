package systemd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
)

const (
	// textMax is the longest message or value that is logged, in bytes. Journal readers of systemd
	// before 252 show a longer field as null in their JSON.
	textMax = 2048
	// queueMax is how many records wait while the log's reader is slow; more are counted and dropped.
	queueMax = 1024
	// flushPatience bounds what is written after stop was called.
	flushPatience = time.Second
)

// A Log is a slog.Handler that never makes its caller wait: records are queued and written by one
// goroutine, so that a hung journal or terminal cannot hold up a withdraw. Under systemd (standard
// error is the journal's stream) they go to the journal with their attributes as fields VOUCH_…;
// otherwise they are lines of text. Every text is at most 2 KiB and without control characters.
type Log struct {
	*queue
	attrs  []slog.Attr // flat and clean
	prefix string      // of the groups opened, with "." after each
}

// queue is what all the handlers derived from one Log share.
type queue struct {
	level   slog.Leveler
	out     slog.Handler
	records chan slog.Record
	lost    atomic.Uint64
}

// NewLog gives a Log that holds back records below level, and writes to stderr unless that is the
// journal's stream. It writes nothing until Start.
func NewLog(level slog.Leveler, stderr *os.File) *Log {
	var out slog.Handler = newLines(stderr, isTerminal(stderr), false)
	if ok, err := journal.StderrIsJournalStream(); ok && err == nil && stderr == os.Stderr {
		out = newJournal(stderr)
	}
	return newLog(level, out)
}

func newLog(level slog.Leveler, out slog.Handler) *Log {
	return &Log{queue: &queue{level: level, out: out, records: make(chan slog.Record, queueMax)}}
}

// Start begins to write. The stop it gives writes what is queued, for at most a second, and waits
// for the writer unless the log's reader is hung. It may be called more than once.
func (l *Log) Start() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		l.write(quit)
	}()
	return sync.OnceFunc(func() {
		close(quit)
		t := time.NewTimer(flushPatience)
		defer t.Stop()
		select {
		case <-done:
		case <-t.C:
		}
	})
}

func (q *queue) write(quit <-chan struct{}) {
	for {
		select {
		case r := <-q.records:
			q.emit(r)
		case <-quit:
			for len(q.records) > 0 {
				q.emit(<-q.records)
			}
			return
		}
	}
}

func (q *queue) emit(r slog.Record) {
	if n := q.lost.Swap(0); n > 0 {
		lost := slog.NewRecord(time.Now(), slog.LevelWarn, fmt.Sprintf("%d log records were lost: the log was not read in time", n), 0)
		_ = q.out.Handle(context.Background(), lost)
	}
	_ = q.out.Handle(context.Background(), r) // there is nobody to tell that the log cannot be written
}

// Enabled implements slog.Handler.
func (l *Log) Enabled(_ context.Context, level slog.Level) bool { return level >= l.level.Level() }

// Handle implements slog.Handler: it resolves and cleans everything now and queues the record.
func (l *Log) Handle(_ context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, tidy(r.Message), r.PC)
	clean.AddAttrs(l.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(flatten(nil, l.prefix, a)...)
		return true
	})
	select {
	case l.records <- clean:
	default:
		l.lost.Add(1)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (l *Log) WithAttrs(attrs []slog.Attr) slog.Handler {
	flat := l.attrs[:len(l.attrs):len(l.attrs)]
	for _, a := range attrs {
		flat = flatten(flat, l.prefix, a)
	}
	return &Log{queue: l.queue, attrs: flat, prefix: l.prefix}
}

// WithGroup implements slog.Handler.
func (l *Log) WithGroup(name string) slog.Handler {
	if name == "" {
		return l
	}
	return &Log{queue: l.queue, attrs: l.attrs, prefix: l.prefix + name + "."}
}

// flatten appends a to out, its groups dissolved into dotted keys and its value turned into a clean
// text. Flat keys also spare slog-journal's ReplaceAttr, which is not told of groups inside a record.
func flatten(out []slog.Attr, prefix string, a slog.Attr) []slog.Attr {
	v := a.Value.Resolve()
	switch {
	case v.Kind() == slog.KindGroup:
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, m := range v.Group() {
			out = flatten(out, prefix, m)
		}
		return out
	case a.Equal(slog.Attr{}):
		return out
	}
	return append(out, slog.String(prefix+a.Key, tidy(text(v))))
}

// text gives a value for people: slog-journal would write a duration as bare microseconds.
func text(v slog.Value) string {
	switch v.Kind() {
	case slog.KindTime:
		return v.Time().Format(time.RFC3339Nano)
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			return err.Error()
		}
	}
	return v.String()
}

// tidy escapes control characters, newlines among them, and cuts at textMax bytes.
func tidy(s string) string {
	const cut = "… (truncated)"
	if len(s) > 2*textMax {
		s = s[:2*textMax] // enough: escaping never shortens
	}
	s = escape(s)
	if len(s) <= textMax {
		return s
	}
	return strings.ToValidUTF8(s[:textMax-len(cut)], "") + cut
}

func isTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// priority is the syslog severity of a level.
func priority(l slog.Level) int {
	switch {
	case l >= slog.LevelError:
		return 3
	case l >= slog.LevelWarn:
		return 4
	case l >= slog.LevelInfo:
		return 6
	}
	return 7
}

// lines writes records as lines of text.
type lines struct {
	w        io.Writer
	terminal bool // the clock only: whoever looks knows the day
	prefixed bool // with <N>, and without a time: for a reader that adds its own
}

func newLines(w io.Writer, terminal, prefixed bool) *lines {
	return &lines{w: w, terminal: terminal, prefixed: prefixed}
}

// Enabled implements slog.Handler.
func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs is never called: a Log gives its handler flat records.
func (l *lines) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup is never called: a Log gives its handler flat records.
func (l *lines) WithGroup(string) slog.Handler { return l }

// Handle implements slog.Handler with one Write.
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	switch {
	case l.prefixed:
		fmt.Fprintf(&b, "<%d>", priority(r.Level))
	case l.terminal:
		fmt.Fprintf(&b, "%s %-5s ", r.Time.Format("15:04:05.000"), r.Level)
	default:
		fmt.Fprintf(&b, "%s %-5s ", r.Time.Format("2006-01-02T15:04:05.000Z07:00"), r.Level)
	}
	b.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%s", a.Key, quoted(a.Value.String()))
		return true
	})
	b.WriteByte('\n')
	_, err := io.WriteString(l.w, b.String())
	return err
}

// quoted puts s in quotes where a reader could not tell where it ends.
func quoted(s string) string {
	if s == "" || strings.ContainsAny(s, " \"=") {
		return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"`
	}
	return s
}
