package bird

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"vouch/routers"
	"vouch/routers/bird/ctl"
)

// checked is what BIRD says of its configuration as it is in the files.
type checked struct {
	path    string // the configuration's file; empty: not told
	refusal error  // a *ctl.Refusal, nil where it takes it or could not be asked
}

// checkEvery is how long BIRD's word on its configuration stands while none of the files has changed: it answers
// nothing while it reads a large one, see patience.
const checkEvery = 10 * time.Minute

// A verdict is BIRD's word on its configuration, and what that was of.
type verdict struct {
	checked
	version ctl.Version
	given   time.Time
	stamps  map[string]stamp // of the files; nil: not to be relied on
}

// checkup gives what a BIRD says of its configuration, asking it only where that may be another thing than before.
func (m *memo) checkup(ctx context.Context, t talker, v ctl.Version) checked {
	m.mu.Lock()
	last := m.verdicts[t]
	m.mu.Unlock()
	if last.stamps != nil && last.version == v && time.Since(last.given) < checkEvery && maps.Equal(last.stamps, stampsOf(last.path)) {
		return last.checked
	}
	c := checkup(ctx, t, v)
	next := verdict{checked: c, version: v, given: time.Now(), stamps: stampsOf(c.path)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.verdicts == nil {
		m.verdicts = map[talker]verdict{}
	}
	m.verdicts[t] = next
	return c
}

// stampsOf gives the stamps of the files of the configuration at path; nil where they cannot be relied on.
func stampsOf(path string) map[string]stamp {
	if path == "" {
		return nil
	}
	c := readConf(path)
	if !c.whole {
		return nil
	}
	stamps := map[string]stamp{}
	for _, file := range c.files {
		st, sure := stampOf(file)
		if !sure {
			return nil
		}
		stamps[file] = st
	}
	return stamps
}

// checkup has BIRD read its configuration without putting it in force. BIRD 3 is not asked while another one is on
// its way: see configure.
func checkup(ctx context.Context, t talker, v ctl.Version) checked {
	if v.AtLeast(3, 0, 0) {
		if replies, err := t.read(ctx, "show status"); err != nil || reconfiguring(replies[0]) {
			return checked{}
		}
	}
	const command = "configure check"
	replies, err := t.change(ctx, command)
	if err != nil {
		return checked{}
	}
	c := checked{refusal: replies[0].Refused(command)}
	for _, l := range replies[0].Lines {
		if path, ok := strings.CutPrefix(l.Text, "Reading configuration from "); ok {
			c.path = path
		}
	}
	return c
}

// examine says that BIRD would not start, where no file of vouch's has to do with it.
func (c checked) examine(subject string) []routers.Finding {
	said := (*ctl.Refusal)(nil)
	if !errors.As(c.refusal, &said) || said.Code != ctl.ConfigurationFailed {
		return nil
	}
	return []routers.Finding{{Severity: routers.Warning, Subject: subject,
		Text:   "would not start with its configuration as it is in the files, nor takes it: " + said.Text,
		WayOut: "mend it until `birdc configure check` says OK"}}
}
