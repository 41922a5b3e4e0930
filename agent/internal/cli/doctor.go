package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vouch/agent/internal/config"
	"vouch/agent/internal/state"
	"vouch/routers"
	"vouch/routers/detect"
)

// DoctorOptions are what "vouch doctor" knows when it begins.
type DoctorOptions struct {
	ConfigPath string
	Config     *config.Config  // nil: there is no valid one
	Problem    error           // why not
	Agent      *state.Snapshot // of the running agent; nil: none answers
	AgentError error           // why not
}

// A DoctorReport is what was found on this host.
type DoctorReport struct {
	Time     time.Time         `json:"time"`
	File     string            `json:"file"`
	Problems []string          `json:"config_problems,omitempty"` // why there is no configuration to go by
	User     string            `json:"user"`                      // as whom vouch runs
	UserFrom string            `json:"user_from"`                 // how that is known
	Daemons  []detect.Found    `json:"daemons"`
	Router   *DoctorRouter     `json:"router,omitempty"` // nil: no configuration says what to drive
	Prefixes []DoctorPrefix    `json:"prefixes,omitempty"`
	Findings []routers.Finding `json:"findings"` // the worst first
}

// A DoctorRouter is the driver, and whether it could read.
type DoctorRouter struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
}

// Says reports whether the router's error tells as much as detail.
func (r *DoctorRouter) Says(detail string) bool {
	return r != nil && detail != "" && strings.Contains(r.Error, state.Clean(detail))
}

// DropEcho leaves out the findings that only tell the router's error, where another one tells its cause: a daemon's
// own, or one of a socket that the error names. Of two that tell it of the same daemon the first stays.
func (r *DoctorReport) DropEcho() {
	causes := map[string]bool{}
	told := false
	for _, f := range r.Findings {
		if f.Severity == routers.Failing && f.Subject != subjectRouter {
			told = told || r.Router.Says(f.Text) || path.IsAbs(f.Subject) && r.Router.Says(f.Subject)
		}
	}
	r.Findings = slices.DeleteFunc(r.Findings, func(f routers.Finding) bool {
		if f.Severity != routers.Failing {
			return false
		}
		echo := r.Router.Says(f.Text) && (f.Subject == subjectRouter && told || causes[f.Subject])
		causes[f.Subject] = true
		return echo
	})
}

const subjectRouter = "router"

// A DoctorPrefix is a managed prefix as it was read.
type DoctorPrefix struct {
	Prefix   string         `json:"prefix"`
	Service  string         `json:"service"`
	Stage    routers.Stage  `json:"stage"`
	Degraded bool           `json:"degraded,omitempty"`
	Peers    []routers.Peer `json:"peers,omitempty"`
	Detail   string         `json:"detail,omitempty"`
}

// Sort puts the findings in order, the worst first, and otherwise leaves them as they came.
func (r *DoctorReport) Sort() {
	slices.SortStableFunc(r.Findings, func(a, b routers.Finding) int { return cmp.Compare(b.Severity, a.Severity) })
}

// ExitCode is 2 without a valid configuration, else 3 when the router could not be read, else 1 when
// something is worse than a note.
func (r *DoctorReport) ExitCode() int {
	switch {
	case len(r.Problems) > 0:
		return ExitUsage
	case r.Router != nil && !r.Router.OK:
		return ExitNoAgent
	case slices.ContainsFunc(r.Findings, func(f routers.Finding) bool { return f.Severity > routers.Notice }):
		return ExitUnhealthy
	}
	return ExitOK
}

func (a *app) doctorCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what would keep prefixes from being announced or withdrawn",
		Long: `Looks for routing daemons, at every place where they may listen, and says which one is driven
and why, and whether the user that vouch runs as may speak to it. Then it asks that daemon what
would keep the managed prefixes from being announced or withdrawn, or would announce them behind
vouch's back, and how far each of them has come towards the peers.

It may run beside the agent, whose own problems and divergences it tells too, and changes nothing.
Run it as root: others cannot see everything.
Without a configuration it still tells which daemons are here.

Findings are ordered by what they ask of you: fail (cannot work as it is), warn (works now, and
will hurt some day), note (worth knowing), ok. Below each that needs it stands the way out.`,
		Example: `  sudo vouch doctor
  vouch doctor --config ./vouch.toml               # before it goes into force
  vouch doctor --json | jq '.findings[] | select(.severity == "fail")'`,
		Annotations: statuses("0  nothing is worse than a note", "1  something fails or will", "2  wrong usage, or there is no valid configuration",
			"3  the router could not be read"),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd, asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// agentTime is how long the running agent may take to say who it is.
const agentTime = time.Second

func (a *app) doctor(cmd *cobra.Command, asJSON bool) error {
	o := DoctorOptions{ConfigPath: a.config}
	o.Config, o.Problem = config.Load(a.config)
	o.Agent, o.AgentError = a.runningAgent(cmd.Context())
	report := a.deps.Doctor(cmd.Context(), o)
	if err := cmd.Context().Err(); err != nil {
		return &exitError{ExitUnhealthy, errors.New("interrupted")}
	}
	w := cmd.OutOrStdout()
	if asJSON {
		if err := printJSON(w, report); err != nil {
			return exitOf(err)
		}
	} else {
		doctorText(w, report, screenOf(w).colour)
	}
	if code := report.ExitCode(); code != ExitOK {
		return &exitError{code: code}
	}
	return nil
}

// runningAgent asks the agent, if there is one, what it knows.
func (a *app) runningAgent(ctx context.Context) (*state.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, agentTime)
	defer cancel()
	return a.client().Status(ctx)
}

// doctorText prints what is here, what is driven, the prefixes, and then the findings.
func doctorText(w io.Writer, r *DoctorReport, colour bool) {
	for _, p := range r.Problems {
		table(w, "", colour, [][]cell{{painted("config", bad), c(p)}})
	}
	if len(r.Problems) > 0 {
		table(w, "", colour, [][]cell{{c("There is no valid configuration, so only the daemons were looked for.")}})
	}
	rows := [][]cell{{c("user"), c(r.User + " (" + r.UserFrom + ")")}}
	if r.Router != nil {
		outcome := painted("could be read", good)
		if !r.Router.OK {
			outcome = painted("could not be read, see below", bad)
		}
		rows = append(rows, []cell{c("router"), c(r.Router.Name)}, []cell{c(""), outcome})
	}
	table(w, "", colour, rows)
	fmt.Fprintln(w)
	table(w, "", colour, daemonRows(r.Daemons))
	if len(r.Prefixes) > 0 {
		fmt.Fprintln(w)
		table(w, "", colour, prefixRows(r))
	}
	fmt.Fprintln(w)
	findingsText(w, r.Findings, colour)
}

func daemonRows(fs []detect.Found) [][]cell {
	rows := [][]cell{heading("DAEMON", "VERSION", "SOCKET", "STATE", "MODE", "OWNER")}
	for _, f := range fs {
		name, version := f.Daemon, cmp.Or(f.Version, "-")
		for _, s := range f.Sockets {
			rows = append(rows, []cell{painted(name, strong), c(version), c(s.Path), painted(string(s.State), socketPaint(f, s)), c(cmp.Or(s.Mode, "-")), c(owner(s))})
			name, version = "", ""
		}
	}
	return rows
}

func owner(s detect.Socket) string {
	if s.Mode == "" {
		return "-"
	}
	return s.Owner + ":" + s.Group
}

func socketPaint(f detect.Found, s detect.Socket) paint {
	switch {
	case s.State == detect.Answers:
		return good
	case f.Running && s.State != detect.Missing:
		return warned
	}
	return faint
}

// prefixRows leaves the note out where it is only why the router could not be read.
func prefixRows(r *DoctorReport) [][]cell {
	rows := [][]cell{heading("PREFIX", "SERVICE", "STAGE", "PEERS", "NOTE")}
	for _, p := range r.Prefixes {
		stage, note := p.Stage.String(), p.Detail
		if p.Degraded {
			stage += ", degraded"
		}
		if r.Router.Says(note) {
			note = "see below"
		}
		rows = append(rows, []cell{c(p.Prefix), c(p.Service), c(stage), c(cmp.Or(peersText(p.Peers), "-")), c(note)})
	}
	return rows
}

// peersText names the peers, and how far towards each that is not reached.
func peersText(ps []routers.Peer) string {
	texts := make([]string, len(ps))
	for i, p := range ps {
		texts[i] = p.Name
		if p.Stage != routers.Advertised {
			texts[i] += " " + p.Stage.String()
		}
	}
	return strings.Join(texts, ", ")
}

var severityPaints = map[routers.Severity]paint{routers.Failing: bad, routers.Warning: warned, routers.Notice: plain, routers.Fine: good}

// findingsText prints the findings with their ways out, and a line that sums them up.
func findingsText(w io.Writer, fs []routers.Finding, colour bool) {
	width := 0
	for _, f := range fs {
		width = max(width, len([]rune(state.Clean(f.Subject))))
	}
	for _, f := range fs {
		word, subject := severityWord(f.Severity), state.Clean(f.Subject)
		gap := strings.Repeat(" ", width-len([]rune(subject)))
		fmt.Fprintf(w, "%s  %s%s  %s\n", severityPaints[f.Severity].on(fmt.Sprintf("%-4s", word), colour), subject, gap, state.Clean(f.Text))
		if f.WayOut != "" {
			fmt.Fprintf(w, "      %s  %s\n", strings.Repeat(" ", width), strong.on("-> "+state.Clean(f.WayOut), colour))
		}
	}
	fmt.Fprintln(w, summary(fs))
}

func severityWord(s routers.Severity) string {
	b, _ := s.MarshalText() // it has no way to fail
	return string(b)
}

func summary(fs []routers.Finding) string {
	n := map[routers.Severity]int{}
	for _, f := range fs {
		n[f.Severity]++
	}
	return fmt.Sprintf("%s, %s, %s, %d ok", count(n[routers.Failing], "failure", "failures"), count(n[routers.Warning], "warning", "warnings"),
		count(n[routers.Notice], "note", "notes"), n[routers.Fine])
}
