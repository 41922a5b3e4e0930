package systemd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"os"
	"strings"

	slogjournal "github.com/systemd/slog-journal"
)

const (
	// journalSocket is where slog-journal writes; it has no option for it.
	journalSocket = "/run/systemd/journal/socket"
	// keyKind is the attribute that names the kind of an event.
	keyKind = "kind"
	// keyMessageID is the field that journal readers find all events of one kind by.
	keyMessageID = "MESSAGE_ID"
)

// toJournal sends records to the journal, and to its stream on standard error while the journal's
// socket is missing: slog-journal drops records silently then.
type toJournal struct {
	journal slog.Handler
	stream  *lines
	socket  string
}

func newJournal(stderr io.Writer) slog.Handler {
	stream := newLines(stderr, false, true)
	h, err := slogjournal.NewHandler(&slogjournal.Options{Level: slog.LevelDebug, ReplaceAttr: field})
	if err != nil {
		return stream
	}
	return &toJournal{journal: h, stream: stream, socket: journalSocket}
}

// Enabled implements slog.Handler.
func (j *toJournal) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs is never called: a Log gives its handler flat records.
func (j *toJournal) WithAttrs([]slog.Attr) slog.Handler { return j }

// WithGroup is never called: a Log gives its handler flat records.
func (j *toJournal) WithGroup(string) slog.Handler { return j }

// Handle implements slog.Handler.
func (j *toJournal) Handle(ctx context.Context, r slog.Record) error {
	if _, err := os.Stat(j.socket); err != nil {
		return j.stream.Handle(ctx, r)
	}
	sent := r.Clone()
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == keyKind {
			sent.AddAttrs(slog.String(keyMessageID, MessageID(a.Value.String())))
		}
		return true
	})
	if err := j.journal.Handle(ctx, sent); err != nil {
		return j.stream.Handle(ctx, r)
	}
	return nil
}

// MessageID gives the journal's MESSAGE_ID of a kind of event: 32 hexadecimal digits which never
// change, for "journalctl MESSAGE_ID=…" and for catalogs.
func MessageID(kind string) string {
	sum := sha256.Sum256([]byte("vouch event " + kind))
	return hex.EncodeToString(sum[:16])
}

// field makes an attribute's key a field name: the journal silently drops any other than
// ^[A-Z][A-Z0-9_]*$, of at most 64 characters. The prefix keeps ours apart from its own.
func field(_ []string, a slog.Attr) slog.Attr {
	if a.Key != keyMessageID {
		a.Key = fieldName(a.Key)
	}
	return a
}

func fieldName(key string) string {
	const nameMax = 64
	name := "VOUCH_" + strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, key)
	return name[:min(len(name), nameMax)]
}
