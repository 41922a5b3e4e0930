package agent

import (
	"context"
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

// run is the agent as a process: it logs, and reloads on SIGHUP.
func run(ctx context.Context, version string, o cli.RunOptions) error {
	level := new(slog.LevelVar)
	if err := level.UnmarshalText([]byte(o.Config.Agent.LogLevel)); err != nil {
		return err
	}
	log := systemd.NewLog(level, os.Stderr)
	defer log.Start()()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	a := New(o.Config, Deps{Version: version, Log: slog.New(log), Notifier: systemd.NewNotifier(), Hangup: hangup, NewRouter: NewRouter,
		Socket: o.Socket})
	return a.Run(ctx)
}
