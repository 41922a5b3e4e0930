// Package cli is the command line of vouch: what it takes, what it prints, and its exit statuses.
// What runs the agent and a round of checks is given to it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"vouch/agent/internal/config"
	"vouch/agent/internal/control"
)

// The exit statuses.
const (
	ExitOK        = 0 // all is as it ought to be
	ExitUnhealthy = 1 // something is not, or the command failed
	ExitUsage     = 2 // wrong usage, or a configuration that is not valid
	ExitNoAgent   = 3 // no agent could be asked, or the router could not be read
	// ExitConfig is how "vouch run" tells of a configuration that is not valid: EX_CONFIG of sysexits(3). Go's runtime
	// exits with 2 after a panic and after the watchdog's SIGABRT, and then systemd is to start the agent again.
	ExitConfig = 78
)

// The defaults of the global flags.
const (
	defaultConfig = "/etc/vouch/vouch.toml"
	defaultSocket = "/run/vouch/control.sock"
)

// Deps are what the commands need from the rest of the program.
type Deps struct {
	Version string
	// Run works as the agent until ctx ends. config.Problems among its errors exit with 2.
	Run func(ctx context.Context, o RunOptions) error
	// Refused is called when there is no valid configuration to run with. What it gives is printed, line by line.
	Refused func() []string
	// Check runs one round of the checks that are asked for, and reads the router. It changes nothing. What fails
	// in there is in the report, not the error.
	Check func(ctx context.Context, cfg *config.Config, o CheckOptions) (*CheckReport, error)
	// Doctor looks at what is here. It changes nothing.
	Doctor func(ctx context.Context, o DoctorOptions) *DoctorReport
	// Withdraw withdraws every prefix of the configuration and reads that until it is so, or until ctx ends. While
	// an agent runs it changes nothing, and the error wraps control.ErrRunning. What fails beyond that is in the
	// report.
	Withdraw func(ctx context.Context, cfg *config.Config) (*WithdrawReport, error)
}

// RunOptions are what "vouch run" was told.
type RunOptions struct {
	ConfigPath string         // absolute; a reload reads it again
	Socket     string         // given on the command line; empty: what the configuration says
	Config     *config.Config // what the file holds now, valid, with Socket put in
	Stderr     io.Writer      // where the command may write
}

// An exitError ends the program with a status. A nil err prints nothing.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// app is what all commands share.
type app struct {
	deps   Deps
	config string
	socket string
}

// Run executes one command line and gives the exit status. SIGINT and SIGTERM end what is under way;
// a second one kills.
func Run(args []string, stdout, stderr io.Writer, d Deps) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	out := &sticky{w: stdout}
	root := New(d)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(stderr)
	called, err := root.ExecuteContextC(ctx)
	if err == nil && out.err != nil {
		err = &exitError{ExitUnhealthy, fmt.Errorf("write the output: %w", out.err)}
	}
	return report(stderr, called, err)
}

// report prints what went wrong and gives the exit status.
func report(stderr io.Writer, called *cobra.Command, err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &exit):
		if exit.err != nil {
			fmt.Fprintf(stderr, "vouch: %s\n", exit.err)
		}
		return exit.code
	}
	// Only cobra's own complaints about the command line are left.
	fmt.Fprintf(stderr, "vouch: %s; see %s --help\n", complaint(err), called.CommandPath())
	return ExitUsage
}

// complaint is cobra's text on one line: its suggestions stand on indented lines of their own.
func complaint(err error) string {
	text, more, _ := strings.Cut(err.Error(), "\n")
	var meant []string
	for line := range strings.Lines(more) {
		if word, ok := strings.CutPrefix(line, "\t"); ok {
			meant = append(meant, strings.TrimSpace(word))
		}
	}
	if len(meant) > 0 {
		text += ", did you mean " + strings.Join(meant, " or ") + "?"
	}
	return text
}

// New gives the command vouch with all its subcommands.
func New(d Deps) *cobra.Command {
	a := &app{deps: d}
	root := &cobra.Command{
		Use:   "vouch",
		Short: "Announce a service's anycast addresses only while it answers",
		Long: `vouch checks whether a service answers, lets the routing daemon of this host announce
the service's anycast prefixes only while it does, and reads the table back.

The agent is "vouch run", usually as vouch.service. The other commands ask it over its
control socket, or need no agent at all (check, doctor, validate, config).`,
		Example: `  vouch config example > /etc/vouch/vouch.toml   # begin
  vouch validate && vouch check                  # would it work?
  vouch status                                   # how are things?
  vouch explain resolver                         # why?
  vouch drain resolver --for 30m                 # take this node out for a while`,
		Version:       build(d.Version).line(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetHelpTemplate(helpTemplate)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.Flags().Bool("version", false, "print the version")
	root.PersistentFlags().StringVar(&a.config, "config", defaultConfig, "configuration `FILE`")
	root.PersistentFlags().StringVar(&a.socket, "socket", "", "control socket `PATH` (default: the configuration's, or "+defaultSocket+")")
	root.AddCommand(a.runCmd(), a.checkCmd(), a.statusCmd(), a.explainCmd(), a.eventsCmd(), a.drainCmd(), a.resumeCmd(), a.withdrawCmd(),
		a.doctorCmd(), a.validateCmd(), a.configCmd(), a.versionCmd(), a.manCmd())
	return root
}

// helpTemplate is cobra's, with the exit statuses apart from the text.
const helpTemplate = `{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}{{with index .Annotations "exit"}}
Exit status:
{{.}}
{{end}}`

// statuses documents a command's exit statuses in its help.
func statuses(lines ...string) map[string]string {
	return map[string]string{"exit": "  " + strings.Join(lines, "\n  ")}
}

// client gives a client for the socket that the flags or the configuration name.
func (a *app) client() *control.Client {
	path := a.socket
	if path == "" {
		path = defaultSocket
		if cfg, err := config.Load(a.config); err == nil {
			path = cfg.Control.Socket
		}
	}
	return control.NewClient(path)
}

// services completes the name of one service, of those the agent has.
func (a *app) services(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	snap, err := a.client().Status(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := make([]string, len(snap.Services))
	for i, s := range snap.Services {
		names[i] = s.Name
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// exitOf turns an error of the client into the exit status it means.
func exitOf(err error) error {
	var exit *exitError
	switch {
	case err == nil, errors.As(err, &exit):
		return err
	case errors.Is(err, context.Canceled):
		return &exitError{ExitUnhealthy, errors.New("interrupted")}
	case errors.Is(err, control.ErrUnknownService):
		return &exitError{ExitUsage, err}
	case errors.Is(err, control.ErrNotRunning), errors.Is(err, control.ErrNoAnswer), errors.Is(err, control.ErrDenied):
		return &exitError{ExitNoAgent, err}
	}
	return &exitError{ExitUnhealthy, err}
}

// named checks that a command was given exactly one service.
func named(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s needs the name of one service (got %s)", cmd.CommandPath(), count(len(args), "argument", "arguments"))
	}
	return nil
}

// sticky remembers the first error of its writer: a full disk must not look like success.
type sticky struct {
	w   io.Writer
	err error
}

func (s *sticky) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	if err != nil && s.err == nil {
		s.err = err
	}
	return n, err
}
