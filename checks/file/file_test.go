package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vouch/checks"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func write(tb testing.TB, path, text string) {
	tb.Helper()
	must(tb, os.WriteFile(path, []byte(text), 0o644))
}

// fresh makes a check that has an inotify instance of its own.
func fresh(tb testing.TB, s Spec) *checker {
	tb.Helper()
	if ps := s.Validate(); ps != nil {
		tb.Fatalf("%+v", ps)
	}
	c, err := s.New()
	must(tb, err)
	own := c.(*checker)
	own.kernel = new(kernel)
	return own
}

func no() *bool { return new(bool) }

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		spec Spec
		want string // key: what; "" for none
	}{
		"least":             {Spec{Path: "/run/flag"}, ""},
		"all":               {Spec{Path: "/run/flag", MaxAge: time.Minute, Match: "^ok$"}, ""},
		"absent":            {Spec{Path: "/run/flag", Exists: no()}, ""},
		"no path":           {Spec{}, "path: is missing"},
		"relative":          {Spec{Path: "run/flag"}, "path: must be absolute"},
		"the root":          {Spec{Path: "//./"}, "path: must name a file, not the root of them all"},
		"the way back":      {Spec{Path: "/run/../flag"}, `path: must not hold "..", which behind a link leads elsewhere than it seems`},
		"two dots in it":    {Spec{Path: "/run/..data/a..b"}, ""},
		"a long name":       {Spec{Path: "/" + strings.Repeat("x", 256)}, "path: is longer than Linux takes"},
		"a NUL":             {Spec{Path: "/run/\x00"}, "path: must not hold a NUL"},
		"a negative age":    {Spec{Path: "/run/flag", MaxAge: -1}, "max_age: must not be negative"},
		"no expression":     {Spec{Path: "/run/flag", Match: "("}, "match: error parsing regexp: missing closing ): `(`"},
		"both":              {Spec{Path: "/run/flag", Match: "a", Contains: "a"}, "match: cannot go with contains"},
		"age of nothing":    {Spec{Path: "/run/flag", Exists: no(), MaxAge: 1}, "max_age: has no effect with exists = false"},
		"content of naught": {Spec{Path: "/run/flag", Exists: no(), Contains: "a"}, "contains: has no effect with exists = false"},
		"match of naught":   {Spec{Path: "/run/flag", Exists: no(), Match: "a"}, "match: has no effect with exists = false"},
		"too much":          {Spec{Path: "/run/flag", Contains: strings.Repeat("x", maxRead+1)}, "contains: is longer than 64 KiB, of which no more is read"},
	} {
		var got []string
		for _, p := range c.spec.Validate() {
			got = append(got, p.Key+": "+p.What)
			if p.WayOut == "" {
				t.Errorf("%s: no way out of %+v", name, p)
			}
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	s := Spec{Path: "/run//./flag/"}
	if s.Validate(); s.Path != "/run//./flag/" || !*s.Exists {
		t.Errorf("defaults: %+v", s)
	}
}

func TestHints(t *testing.T) {
	for key, want := range map[string]bool{"exists": true, "max_age": true, "path": false} {
		if got := new(Spec).Hint(key); (got != "") != want {
			t.Errorf("%s: %q", key, got)
		}
	}
}

// A path that others may hide is no trouble here, where nothing hides it.
func TestLocal(t *testing.T) {
	for _, path := range []string{"/tmp/flag", "/run/flag", "/var/tmp/none/flag", "/dev/shm/flag", "/etc/vouch/none"} {
		s := Spec{Path: path}
		s.Validate()
		if ps := s.Local(); len(ps) > 0 {
			t.Errorf("%s: %+v", path, ps)
		}
		if ps := s.unseen(finding{}, false); len(ps) != 1 || ps[0].WayOut == "" {
			t.Errorf("%s: a dead file system: %+v", path, ps)
		}
	}
}

// Each way in which a file can be, and how it is judged.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("flag"), "status: ok\n")
	write(t, at("old"), "")
	hour := time.Now().Add(-time.Hour).Truncate(time.Second)
	must(t, os.Chtimes(at("old"), hour, hour))
	write(t, at("ahead"), "")
	must(t, os.Chtimes(at("ahead"), hour.Add(3*time.Hour), hour.Add(3*time.Hour)))
	write(t, at("long"), strings.Repeat("x", maxRead)+"ok")
	write(t, at("end"), strings.Repeat("x", maxRead-2)+"ok")
	must(t, os.Symlink("nowhere", at("dangling")))
	must(t, os.Symlink("flag", at("link")))
	must(t, os.Symlink("loop", at("loop")))
	must(t, syscall.Mkfifo(at("pipe"), 0o600))
	for name, c := range map[string]struct {
		spec   Spec
		reason checks.Reason
		detail string
	}{
		"there":                {Spec{Path: at("flag")}, "", ""},
		"a directory":          {Spec{Path: dir}, "", ""},
		"through a link":       {Spec{Path: at("link"), Contains: "ok"}, "", ""},
		"not there":            {Spec{Path: at("none")}, checks.ReasonAbsent, "is not there"},
		"no directory":         {Spec{Path: at("no/such/none")}, checks.ReasonAbsent, "is not there: it would lead to " + at("no")},
		"below a file":         {Spec{Path: at("flag/none")}, checks.ReasonAbsent, "is not there: " + at("flag") + " is not a directory"},
		"dangling":             {Spec{Path: at("dangling")}, checks.ReasonAbsent, "is not there: it would lead to " + at("nowhere")},
		"dangling, and right":  {Spec{Path: at("dangling"), Exists: no()}, "", ""},
		"a loop":               {Spec{Path: at("loop")}, checks.ReasonError, "cannot be looked at: too many levels of symbolic links"},
		"must not, in a loop":  {Spec{Path: at("loop"), Exists: no()}, checks.ReasonUnknown, "cannot be looked at: too many levels of symbolic links"},
		"only a directory":     {Spec{Path: at("link") + "/"}, checks.ReasonAbsent, "is not there: " + at("flag") + " is not a directory"},
		"a directory at last":  {Spec{Path: dir + "/"}, "", ""},
		"must not":             {Spec{Path: at("flag"), Exists: no()}, checks.ReasonMismatch, "is there, and must not be"},
		"must not, and is not": {Spec{Path: at("none"), Exists: no()}, "", ""},
		"young":                {Spec{Path: at("flag"), MaxAge: time.Minute}, "", ""},
		"old": {Spec{Path: at("old"), MaxAge: time.Minute}, checks.ReasonUnusable,
			"was last modified at " + hour.UTC().Format(time.RFC3339) + ", 1m0s ago or longer"},
		"old, and may be":  {Spec{Path: at("old"), MaxAge: 2 * time.Hour}, "", ""},
		"ahead":            {Spec{Path: at("ahead"), MaxAge: time.Minute}, checks.ReasonUnusable, "is to come: a clock is wrong"},
		"a little ahead":   {Spec{Path: at("ahead"), MaxAge: 3 * time.Hour}, "", ""},
		"contains":         {Spec{Path: at("flag"), Contains: "ok"}, "", ""},
		"does not contain": {Spec{Path: at("flag"), Contains: "up"}, checks.ReasonMismatch, `does not contain "up": its 11 bytes are "status: ok\n"`},
		"matches":          {Spec{Path: at("flag"), Match: `(?m)^status:\s+ok$`}, "", ""},
		"does not match":   {Spec{Path: at("flag"), Match: "^ok"}, checks.ReasonMismatch, `does not match "^ok": its 11 bytes are "status: ok\n"`},
		"nothing in it":    {Spec{Path: at("old"), Contains: "ok"}, checks.ReasonMismatch, `does not contain "ok": its 0 bytes are ""`},
		"at the end":       {Spec{Path: at("end"), Contains: "ok"}, "", ""},
		"too far in":       {Spec{Path: at("long"), Contains: "ok"}, checks.ReasonMismatch, `does not contain "ok": its first 64 KiB are "xxx`},
		"of a directory":   {Spec{Path: dir, Contains: "ok"}, checks.ReasonUnusable, "is a directory, which has no content to look at"},
		"of a pipe":        {Spec{Path: at("pipe"), Contains: "ok"}, checks.ReasonUnusable, "is a pipe, which has no content to look at"},
		"of a device":      {Spec{Path: "/dev/zero", Contains: "ok"}, checks.ReasonUnusable, "is a device, which has no content to look at"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := fresh(t, c.spec).Check(ctx)
		cancel()
		res := checks.Result{Start: time.Now(), Err: err}
		if res.Reason() != c.reason || err != nil && !strings.Contains(err.Error(), c.detail) {
			t.Errorf("%s: %v, want %s: %s", name, err, c.reason, c.detail)
		}
	}
	if err := fresh(t, Spec{Path: dir + "//./none"}).Check(t.Context()); err == nil || err.Error() != "absent: is not there" {
		t.Errorf("a path that is not clean: %v", err)
	}
	if got := fresh(t, Spec{Path: at("flag")}).String(); got != at("flag") {
		t.Errorf("called %q", got)
	}
}

// A pipe in the place of the file that was looked at does not hold up whoever opens it.
func TestPipeDoesNotBlock(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	if _, _, err := head(pipe); err == nil {
		t.Error("a pipe was read")
	}
}

// unprivileged runs f as a user whom nothing belongs to, on a thread of its own.
func unprivileged(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends
		must(t, unix.Setfsgid(65534))
		must(t, unix.Setfsuid(65534))
		f()
	}()
	<-done
}

func TestDenied(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "closed")
	must(t, os.Mkdir(dir, 0o755))
	flag := filepath.Join(dir, "flag")
	write(t, flag, "ok")
	must(t, os.Chmod(flag, 0))
	for d := filepath.Dir(dir); d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		must(t, os.Chmod(d, 0o755))
	}
	judge := func(s Spec) (f *checks.Failure) {
		var err error
		unprivileged(t, func() { c := fresh(t, s); err = c.judge(t.Context(), lookUp(c.path, c.reads()), time.Now()) })
		_ = errors.As(err, &f)
		return f
	}
	if f := judge(Spec{Path: flag}); f != nil {
		t.Errorf("that it is there needs no right to read it: %v", f)
	}
	if f := judge(Spec{Path: flag, Contains: "ok"}); f == nil || f.Reason != checks.ReasonUnknown || f.Detail != "cannot be read: permission denied" {
		t.Errorf("a file that may not be read: %v", f)
	}
	must(t, os.Chmod(dir, 0o700))
	for _, exists := range []bool{true, false} {
		f := judge(Spec{Path: flag, Exists: &exists})
		if f == nil || f.Reason != checks.ReasonUnknown || !strings.HasSuffix(f.Detail, "the agent's user may not enter "+dir) {
			t.Errorf("a directory that may not be entered: %v", f)
		}
	}
	unprivileged(t, func() {
		s := Spec{Path: flag}
		if ps := s.unseen(lookUp(flag, false), true); len(ps) != 1 || !strings.Contains(ps[0].What, "may not enter "+dir) {
			t.Errorf("local: %+v", ps)
		}
	})
	if os.Geteuid() != 0 {
		must(t, os.Chmod(dir, 0o755)) // so that it can be removed
	}
}

func TestTrace(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "flag")
	write(t, flag, "ok\n"+strings.Repeat("x", 2*traced))
	var told strings.Builder
	ctx := checks.WithTrace(t.Context(), func(d checks.Direction, text string) { told.WriteString(string(d) + " " + text + "\n") })
	must(t, fresh(t, Spec{Path: flag, Contains: "ok"}).Check(ctx))
	for _, want := range []string{"> stat " + flag, "< a regular file, 8195 bytes, -rw-r--r--, modified 20", "< ok\nxxx"} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("lacks %q: %s", want, told.String())
		}
	}
	if told.Len() > traced+512 {
		t.Errorf("%d bytes were shown", told.Len())
	}
}

func BenchmarkCheck(b *testing.B) {
	flag := filepath.Join(b.TempDir(), "flag")
	write(b, flag, "ok")
	for name, s := range map[string]Spec{"exists": {Path: flag}, "contains": {Path: flag, Contains: "ok"}} {
		b.Run(name, func(b *testing.B) {
			c := fresh(b, s)
			b.ReportAllocs()
			for b.Loop() {
				must(b, c.Check(b.Context()))
			}
		})
	}
}

// An expression that takes long on what a file has ends with the check.
func TestSlowExpression(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flag")
	write(t, path, strings.Repeat("abcz", maxRead/4))
	c := fresh(t, Spec{Path: path, Match: `(?:(?:a?){100}(?:b?){100}(?:c?){100}){3}[x-z]{900}$`})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	f := (*checks.Failure)(nil)
	if err := c.Check(ctx); !errors.As(err, &f) || f.Reason != checks.ReasonTimeout || f.Detail != "the regular expression takes too long on what came" {
		t.Error(err)
	}
}
