package agent

import (
	"bytes"
	stdlog "log"
	"log/slog"
	"strings"
	"testing"
)

// What a library prints is heard as debug, and nowhere else.
func TestLibrariesAreHeardAsDebug(t *testing.T) {
	before, flags := stdlog.Writer(), stdlog.Flags()
	defer func() { stdlog.SetOutput(before); stdlog.SetFlags(flags) }()
	var quiet, loud bytes.Buffer
	hearLibraries(slog.NewTextHandler(&quiet, nil))
	stdlog.Print("protocol error")
	hearLibraries(slog.NewTextHandler(&loud, &slog.HandlerOptions{Level: slog.LevelDebug}))
	stdlog.Print("protocol error")
	if quiet.Len() > 0 || !strings.Contains(loud.String(), `level=DEBUG msg="protocol error"`) {
		t.Errorf("at info %q, at debug %q", &quiet, &loud)
	}
}
