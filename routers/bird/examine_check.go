package bird

import (
	"context"
	"errors"
	"strings"

	"vouch/routers"
	"vouch/routers/bird/ctl"
)

// checked is what BIRD says of its configuration as it is in the files.
type checked struct {
	path    string // the configuration's file; empty: not told
	refusal error  // a *ctl.Refusal, nil where it takes it or could not be asked
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
