package lab_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vouch/routers/lab"
)

const smallBIRD = "router id 10.0.0.1;\nprotocol device { }\n"

// eachBIRD runs a test with every daemon of every release.
func eachBIRD(t *testing.T, test func(t *testing.T, b *lab.BIRD)) {
	for _, r := range lab.BIRDs {
		starts := map[string]func(*lab.Node) (*lab.BIRD, error){
			r.String(): func(nd *lab.Node) (*lab.BIRD, error) { return nd.BIRD(within(t, time.Minute), r, smallBIRD) },
		}
		if r.Split() {
			starts[r.String()+"six"] = func(nd *lab.Node) (*lab.BIRD, error) { return nd.BIRD6(within(t, time.Minute), r, smallBIRD) }
		}
		for name, start := range starts {
			t.Run(name, func(t *testing.T) {
				nd, err := lab.Open(t, r).Node("a")
				if err != nil {
					t.Fatal(err)
				}
				b, err := start(nd)
				if err != nil {
					t.Fatal(err)
				}
				test(t, b)
			})
		}
	}
}

func TestBIRD(t *testing.T) {
	t.Parallel()
	eachBIRD(t, func(t *testing.T, b *lab.BIRD) {
		want, err := b.Release().Version(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx := within(t, time.Minute)
		out, err := b.Birdc(ctx, "show status")
		if err != nil || !strings.Contains(out, "BIRD "+want) {
			t.Errorf("the client of %s said %q (%v)", want, out, err)
		}
		if _, err := b.Show(ctx, "show nonsense"); err == nil || !strings.Contains(err.Error(), "9001 ") {
			t.Errorf("an unknown command gave %v", err)
		}
		if err := b.Start(ctx); err == nil {
			t.Error("it was started twice")
		}
		before := b.PID()
		if err := b.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		if after := b.PID(); after == before {
			t.Errorf("it is the process %d still", after)
		}
		hangs(t, b)
		if err := b.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(b.Socket()); err != nil {
			t.Errorf("a killed bird leaves its socket: %v", err)
		}
		if err := b.Start(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

func hangs(t *testing.T, b *lab.BIRD) {
	t.Helper()
	if err := b.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Show(within(t, 100*time.Millisecond), "show status"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a stopped bird: %v", err)
	}
	if err := b.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Show(t.Context(), "show status"); err != nil {
		t.Errorf("a bird that goes on: %v", err)
	}
}

func TestBIRDTakesFiles(t *testing.T) {
	t.Parallel()
	eachBIRD(t, func(t *testing.T, b *lab.BIRD) {
		ctx := within(t, time.Minute)
		conf, err := b.Config()
		if err != nil || conf != smallBIRD {
			t.Fatalf("the configuration is %q (%v)", conf, err)
		}
		write := func(value string) {
			if err := b.WriteFile("some.inc", "define X = "+value+";\n"); err != nil {
				t.Fatal(err)
			}
		}
		eval := func(want string) {
			t.Helper()
			if got, err := b.Show(ctx, "eval X"); err != nil || !strings.HasSuffix(got, " "+want+"\n") {
				t.Errorf("eval gave %q (%v), want %s", got, err, want)
			}
		}
		write("41")
		if err := b.WriteConfig(conf + "include \"some.inc\";\n"); err != nil {
			t.Fatal(err)
		}
		if err := b.Configure(ctx); err != nil {
			t.Fatal(err)
		}
		eval("41")
		write("= 3")
		if err := b.Configure(ctx); err == nil || !strings.Contains(err.Error(), "some.inc") {
			t.Errorf("a broken file gave %v", err)
		}
		eval("41")
		if !strings.Contains(b.Log(), "Reconfigured") {
			t.Errorf("the log has %q", b.Log())
		}
	})
}

func TestBIRDThatCannotStartSaysWhy(t *testing.T) {
	nd, err := lab.Open(t, lab.BIRDHost).Node("a")
	if err != nil {
		t.Fatal(err)
	}
	_, err = nd.BIRD(within(t, time.Minute), lab.BIRDHost, smallBIRD+"nonsense;\n")
	if err == nil || !strings.Contains(err.Error(), "bird.conf:3:") {
		t.Fatalf("it said %v", err)
	}
}

func TestVersions(t *testing.T) {
	lab.Require(t, slices.Concat(lab.FRRs, lab.BIRDs)...)
	for r, want := range map[lab.Release]string{
		lab.BIRD1: "1.6.", lab.BIRD217: "2.17.", lab.BIRD3: "3.", lab.FRR10: "10.", lab.BIRDHost: "2.", {}: "",
	} {
		got, err := r.Version(t.Context())
		if err != nil || !strings.HasPrefix(got, want) || strings.Trim(got, "0123456789.") != "" {
			t.Errorf("%s is %q (%v), want %s", r, got, err, want)
		}
	}
}
