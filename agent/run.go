package agent

import (
	"context"
	stdlog "log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"vouch/agent/internal/cli"
	"vouch/agent/internal/systemd"
)

// Commands gives what the command line needs: the agent itself, one round of checks without it, and a look
// at what is here.
func Commands(version string) cli.Deps {
	return cli.Deps{
		Version: version,
		Run: func(ctx context.Context, o cli.RunOptions) error {
			return run(ctx, version, o)
		},
		Refused:  refused,
		Check:    check,
		Doctor:   doctor,
		Withdraw: withdraw,
	}
}

// hearLibraries has what libraries print by the log package, such as net/http of a server that breaks the
// protocol, come as debug: that a check failed is told by the check, once.
func hearLibraries(h slog.Handler) {
	stdlog.SetFlags(0)
	stdlog.SetOutput(slog.NewLogLogger(h, slog.LevelDebug).Writer())
}

// run is the agent as a process: it logs, and reloads on SIGHUP.
func run(ctx context.Context, version string, o cli.RunOptions) error {
	level := new(slog.LevelVar)
	if err := level.UnmarshalText([]byte(o.Config.Agent.LogLevel)); err != nil {
		return err
	}
	log := systemd.NewLog(level, os.Stderr)
	defer log.Start()()
	hearLibraries(log)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	a := New(o.Config, Deps{Version: version, Log: slog.New(log), Notifier: systemd.NewNotifier(), Hangup: hangup, NewRouter: NewRouter,
		Socket: o.Socket})
	return a.Run(ctx)
}
