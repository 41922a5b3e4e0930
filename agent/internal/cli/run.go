package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"vouch/agent/internal/config"
)

func (a *app) runCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Run the agent",
		Long: `Runs the agent in the foreground until SIGTERM or SIGINT: checks the services, and has the
routing daemon announce their prefixes only while they answer. SIGHUP reads the
configuration again; one that is not valid changes nothing.

Under systemd it says when it is ready, feeds the watchdog, and logs to the journal.
Otherwise it logs to standard error.

Only one agent runs with a control socket, and only one with a state file ([agent] state_file):
a second one is refused, whatever its --socket is. To try a configuration beside the agent that
runs, use vouch check.`,
		Example: `  vouch run --config ./vouch.toml
  vouch check --config ./vouch.toml              # one round, which changes nothing`,
		Annotations: statuses("0  stopped as asked", "1  could not start or go on", "2  wrong usage",
			"78  the configuration is not valid; nothing was changed"),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if abs, err := filepath.Abs(a.config); err == nil {
				a.config = abs // whoever reads it in the status is elsewhere
			}
			cfg, err := a.load()
			if err != nil && a.deps.Refused != nil {
				for _, line := range a.deps.Refused() {
					fmt.Fprintf(cmd.ErrOrStderr(), "vouch: %s\n", line)
				}
			}
			if err == nil {
				err = runError(a.deps.Run(cmd.Context(), RunOptions{ConfigPath: a.config, Socket: a.socket, Config: cfg, Stderr: cmd.ErrOrStderr()}))
			}
			return told(err)
		},
	}
}

// told gives an agent's own exit status to a configuration that is not valid.
func told(err error) error {
	var exit *exitError
	if errors.As(err, &exit) && exit.code == ExitUsage {
		return &exitError{ExitConfig, exit.err}
	}
	return err
}

// load reads the configuration; its error exits with 2. The flag --socket outranks what it says.
func (a *app) load() (*config.Config, error) {
	cfg, err := config.Load(a.config)
	if err != nil {
		return nil, &exitError{ExitUsage, err}
	}
	if a.socket != "" {
		cfg.Control.Socket = a.socket
	}
	return cfg, nil
}

// runError gives the exit status of what the agent or a check came back with.
func runError(err error) error {
	var problems config.Problems
	switch {
	case err == nil:
		return nil
	case errors.As(err, &problems):
		return &exitError{ExitUsage, err}
	}
	return exitOf(err)
}

// A Build is what "vouch version --json" prints.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the source, with + when it was changed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := build(a.deps.Version)
			if asJSON {
				return exitOf(json.NewEncoder(cmd.OutOrStdout()).Encode(b))
			}
			fmt.Fprintln(cmd.OutOrStdout(), b.line())
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// line is what "vouch version" and "vouch --version" print.
func (b Build) line() string {
	text := "vouch " + b.Version
	if b.Revision != "" {
		text += " (" + b.Revision + ")"
	}
	return fmt.Sprintf("%s, %s %s", text, b.Go, b.Platform)
}

func build(version string) Build {
	b := Build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	changed := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Revision = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+"
		}
	}
	if b.Revision != "" {
		b.Revision += changed
	}
	return b
}
