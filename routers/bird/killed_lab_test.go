package bird

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"vouch/routers"
	"vouch/routers/bird/include"
	"vouch/routers/lab"
)

const writerFile = "VOUCH_TEST_WRITER"

// TestWriter is no test of its own: it is the process that TestKilledWhileWriting kills.
func TestWriter(t *testing.T) {
	path := os.Getenv(writerFile)
	if path == "" {
		t.Skip("only as a process of TestKilledWhileWriting")
	}
	text, err := os.ReadFile(path)
	fatal(t, err)
	for n := 0; ; n++ {
		fatal(t, include.Write(path, padded(text, n)))
	}
}

// padded makes a file long, so that writing it takes its time. It begins with the whole of it, and ends with
// how often it is that.
func padded(text []byte, n int) []byte {
	before, _, _ := bytes.Cut(text, []byte("# pad"))
	return fmt.Appendf(before, "# pad\n%s# whole %d\n", strings.Repeat("# "+strings.Repeat("x", 60)+"\n", 50_000), n)
}

// F08: kill -9 between writing and renaming leaves a whole file, and beside it one that no pattern of an include
// names. BIRD starts with that, and the next writing is none the worse for it.
func TestKilledWhileWriting(t *testing.T) {
	p := openPair(t, lab.BIRDHost, StyleSwitch)
	p.settle(t, routers.Announced)
	b := p.birds[0]
	config, err := b.Config()
	fatal(t, err)
	fatal(t, b.WriteConfig(strings.Replace(config, `include "vouch.conf"`, `include "`+p.options.Include+`*"`, 1)))
	fatal(t, b.Configure(t.Context()))
	left := p.options.Include + ": none"
	sceneWait(t, "a writer to be killed before it has renamed", func() error {
		left = killWriter(t, p.options.Include)
		if left == "" {
			return errors.New("it had")
		}
		return nil
	})
	if text := readFile(t, p.options.Include); !strings.Contains(text, "define DNS_OFF = 0;") || strings.Contains(text, "# pad") && !strings.Contains(text, "# whole ") {
		t.Errorf("the file is cut short: %d bytes", len(text))
	}
	if name := filepath.Base(left); !strings.HasPrefix(name, ".") {
		t.Errorf("left behind is %s, which `include \"*\"` would take in", name)
	}
	fatal(t, b.Restart(t.Context()))
	sceneWait(t, "both to be announced again", func() error {
		if os := p.observed(t); os[0].Stage != routers.Advertised || os[1].Stage != routers.Advertised {
			return fmt.Errorf("%+v", os)
		}
		return nil
	})
	p.settle(t, routers.Withdrawn)
	p.settle(t, routers.Announced)
}

// killWriter has another process write the file over and over, kills it (SIGKILL) when a file that is not
// renamed yet is there, and gives the name of that where it stays.
func killWriter(t *testing.T, path string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestWriter$")
	cmd.Env = append(os.Environ(), writerFile+"="+path)
	fatal(t, cmd.Start())
	pending := func() string {
		found, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"*"))
		return strings.Join(found, " ")
	}
	sceneWait(t, "the writer to have begun", func() error {
		if pending() == "" {
			return errors.New("nothing is there")
		}
		return nil
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return pending()
}
