package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vouch/agent/internal/config"
)

// pages are the manual pages that the program can write of itself.
var pages = map[string]func(root *cobra.Command) []byte{
	"vouch.1":      manCommands,
	"vouch.toml.5": func(*cobra.Command) []byte { return manConfig(string(config.Example()), string(config.Minimal())) },
}

// manCmd is for those who make packages.
func (a *app) manCmd() *cobra.Command {
	names := slices.Sorted(maps.Keys(pages))
	return &cobra.Command{
		Use:    "man PAGE",
		Short:  "Print a manual page",
		Hidden: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || pages[args[0]] == nil {
				return fmt.Errorf("say which manual page: %s (got %q)", strings.Join(names, " or "), args)
			}
			return nil
		},
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := cmd.OutOrStdout().Write(pages[args[0]](cmd.Root()))
			return exitOf(err)
		},
	}
}

// manCommands writes vouch(1) from the help of all commands.
func manCommands(root *cobra.Command) []byte {
	root.InitDefaultCompletionCmd("bash") // cobra adds it only when a command line is executed
	root.InitDefaultHelpFlag()
	r := newRoff("vouch", "1", "User Commands")
	r.macro("SH", "NAME")
	r.line("vouch - " + strings.ToLower(root.Short[:1]) + root.Short[1:])
	r.macro("SH", "SYNOPSIS")
	r.macro("B", "vouch COMMAND [OPTION...] [ARGUMENT...]")
	r.macro("SH", "DESCRIPTION")
	r.text(root.Long)
	r.macro("SH", "OPTIONS OF ALL COMMANDS")
	r.flags(root.PersistentFlags())
	r.macro("SH", "COMMANDS")
	r.commands(root)
	r.macro("SH", "FILES")
	r.entry(defaultConfig, "The configuration, see vouch.toml(5).")
	r.entry(defaultSocket, "The control socket, by which the other commands ask the agent.")
	r.entry("/run/vouch/state.json", "What the agent knows, for its next start within the same boot.")
	r.entry("/var/lib/vouch", "The place for a file which BIRD's configuration includes.")
	r.macro("SH", "EXAMPLES")
	r.lines(strings.TrimRight(root.Example, "\n"))
	r.macro("SH", "SEE ALSO")
	r.line("vouch.toml(5), systemctl(1), journalctl(1), vtysh(1), bird(8)")
	return r.b.Bytes()
}

// commands writes of each command below cmd, and of theirs.
func (r *roff) commands(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		r.command(c)
		if c.Name() != "completion" { // its commands are the shells, and cobra's texts on how to use them long
			r.commands(c)
		}
	}
}

func (r *roff) command(c *cobra.Command) {
	r.macro("SS", c.UseLine())
	r.text(strings.TrimSuffix(c.Short, ".") + ".")
	if c.Long != "" {
		r.macro("PP")
		r.text(c.Long)
	}
	r.flags(c.NonInheritedFlags())
	if exit := c.Annotations["exit"]; exit != "" {
		r.macro("PP")
		r.line("Exit status:")
		r.lines(exit)
	}
	if c.Example != "" {
		r.macro("PP")
		r.line("Such as:")
		r.lines(c.Example)
	}
}

// flags writes what each does, but for --help, which is everywhere.
func (r *roff) flags(fs *pflag.FlagSet) {
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		term := "--" + f.Name
		if f.Shorthand != "" {
			term = "-" + f.Shorthand + ", " + term
		}
		if value != "" {
			term += " " + value
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" {
			usage += " (default " + f.DefValue + ")"
		}
		r.entry(term, usage)
	})
}
