package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"vouch/agent/internal/config"
)

func (a *app) validateCmd() *cobra.Command {
	var here bool
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Say whether the configuration is valid",
		Long: `Reads the configuration as the agent would, and prints every problem with its place in the
file and the way out. What this machine does not have, such as a group, a source address, a unit
or a certificate's file, is only a warning, as the file may be meant for another; with --here it
is a mistake. It changes nothing and asks no routing daemon.`,
		Example:     "  vouch validate --here --config ./vouch.toml && systemctl reload vouch",
		Annotations: statuses("0  valid", "2  not valid, or not readable"),
		Args:        cobra.NoArgs,
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.validate(cmd, here) },
	}
	cmd.Flags().BoolVar(&here, "here", false, "what does not fit this machine is a mistake too")
	return cmd
}

func (a *app) validate(cmd *cobra.Command, here bool) error {
	cfg, err := config.Load(a.config)
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), err)
		return &exitError{code: ExitUsage}
	}
	local := cfg.Local()
	for _, p := range local {
		fmt.Fprintln(cmd.ErrOrStderr(), "on this machine:", p)
	}
	if here && len(local) > 0 {
		return &exitError{code: ExitUsage}
	}
	prefixes := 0
	for _, s := range cfg.Services {
		prefixes += len(s.Prefixes)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: ok: %s, %s\n", a.config, count(len(cfg.Services), "service", "services"), count(prefixes, "prefix", "prefixes"))
	return nil
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (a *app) configCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print an example configuration, or the one in force",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(printCmd("example", "Print a commented configuration with every key", config.Example),
		printCmd("minimal", "Print the shortest useful configuration", config.Minimal), a.showCmd())
	return cmd
}

func printCmd(name, short string, text func() []byte) *cobra.Command {
	return &cobra.Command{
		Use:     name,
		Short:   short,
		Example: "  vouch config " + name + " > /etc/vouch/vouch.toml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(text())
			return exitOf(err)
		},
	}
}

func (a *app) showCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:         "show",
		Short:       "Print the configuration with all its defaults",
		Example:     "  vouch config show --config ./vouch.toml",
		Annotations: statuses("0  printed", "2  not valid, or not readable"),
		Args:        cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			show := config.Show
			if asJSON {
				show = config.ShowJSON
			}
			return exitOf(show(cmd.OutOrStdout(), cfg))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
