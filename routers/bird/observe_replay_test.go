package bird

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"vouch/routers"
	"vouch/routers/bird/ctl"
	"vouch/routers/lab"
)

var update = flag.Bool("update-recordings", false, "write testdata/ from the real daemons")

// isoLong is what makes BIRD print times of two words.
const isoLong = "timeformat protocol iso long;\ntimeformat route iso long;\n"

// A recording is what one BIRD sent: its greeting under the empty command, and its reply to each command,
// byte for byte.
type recording map[string]string

// spy notes the commands that are read.
type spy struct {
	talker
	asked *[]string
}

func (s spy) read(ctx context.Context, commands ...string) ([]ctl.Reply, error) {
	*s.asked = append(*s.asked, commands...)
	return s.talker.read(ctx, commands...)
}

// TestRecord writes testdata/VERSION/ anew, with -update-recordings, from the scene in which every release
// is seen to stand. testdata/2.0.8 is of Ubuntu 22.04's package, which was put in the place
// of bird207 for once, and testdata/3.3.2 of trixie-backports', in the place of bird3.
func TestRecord(t *testing.T) {
	if !*update {
		t.Skip("only with -update-recordings")
	}
	for name, head := range map[string]string{"scene": "", "iso": isoLong} {
		for _, r := range lab.BIRDs {
			s := openScene(t, r, head)
			version, err := r.Version(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var main, six []string
			d := s.daemons()
			s.sights(t, daemons{spy{d.main, &main}, spy{d.six, &six}})
			d.close()
			sceneRecord(t, filepath.Join("testdata", version, name+".txt"), s.main.Socket(), append([]string{"show status"}, main...))
			if s.six != nil {
				sceneRecord(t, filepath.Join("testdata", version, name+"6.txt"), s.six.Socket(), append([]string{"show status"}, six...))
			}
		}
	}
}

// sceneRecord asks the commands again and writes what comes, each under a line that begins with ">".
func sceneRecord(t *testing.T, file, socket string, commands []string) {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	var b strings.Builder
	for i, command := range append([]string{""}, commands...) {
		if strings.Contains(b.String(), "> "+command+"\n") {
			continue
		}
		fmt.Fprintf(&b, "> %s\n", command)
		if i > 0 {
			fmt.Fprintln(conn, command)
		}
		for line := ""; len(line) < 5 || line[4] != ' ' || line[0] == ' '; b.WriteString(line) {
			if line, err = in.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readRecording(t *testing.T, file string) recording {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, command := recording{}, ""
	for line := range strings.Lines(string(text)) {
		if c, ok := strings.CutPrefix(line, "> "); ok {
			command = strings.TrimSuffix(c, "\n")
			continue
		}
		r[command] += line
	}
	return r
}

// A replayer is a control socket behind which a recording speaks. Of each session it sends the first cut
// bytes, and then closes it; a negative cut is none.
type replayer struct {
	recording
	path string
	done sync.WaitGroup

	mu       sync.Mutex
	cut      int
	sent     int // in all sessions
	sessions int
	lost     []string // commands that are not in the recording
}

func replay(t *testing.T, r recording) *replayer {
	t.Helper()
	rp := &replayer{recording: r, path: filepath.Join(t.TempDir(), "bird.ctl"), cut: -1}
	l, err := net.Listen("unix", rp.path)
	if err != nil {
		t.Fatal(err)
	}
	rp.done.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			rp.done.Go(func() { rp.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		rp.done.Wait()
		for _, c := range rp.lost {
			t.Errorf("asked for %q, which was not recorded", c)
		}
	})
	return rp
}

func (rp *replayer) serve(conn net.Conn) {
	defer conn.Close()
	rp.mu.Lock()
	left := rp.cut
	rp.sessions++
	rp.mu.Unlock()
	send := func(text string) bool {
		whole := left < 0 || len(text) <= left
		if !whole {
			text = text[:left]
		} else if left >= 0 {
			left -= len(text)
		}
		rp.mu.Lock()
		rp.sent += len(text)
		rp.mu.Unlock()
		_, err := io.WriteString(conn, text)
		return whole && err == nil
	}
	ok := send(rp.recording[""])
	for in := bufio.NewScanner(conn); ok && in.Scan(); {
		ok = send(rp.answer(in.Text()))
	}
}

func (rp *replayer) answer(command string) string {
	if command == "restrict" {
		return "0016 Access restricted\n"
	}
	if reply, ok := rp.recording[command]; ok {
		return reply
	}
	rp.mu.Lock()
	defer rp.mu.Unlock()
	rp.lost = append(rp.lost, command)
	return "9001 not recorded\n"
}

// count gives how many sessions there were, and the bytes sent in all of them.
func (rp *replayer) count() (sessions, sent int) {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	return rp.sessions, rp.sent
}

func (rp *replayer) cutAt(n int) {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	rp.cut = n
}

// replayers gives what stands for the BIRDs of a recorded release.
func replayers(t *testing.T, dir, name string) (main, six *replayer) {
	t.Helper()
	main = replay(t, readRecording(t, filepath.Join(dir, name+".txt")))
	if file := filepath.Join(dir, name+"6.txt"); exists(file) {
		six = replay(t, readRecording(t, file))
	}
	return main, six
}

func exists(file string) bool { _, err := os.Stat(file); return err == nil }

// eachRecorded runs a test for every recorded release.
func eachRecorded(t *testing.T, name string, test func(t *testing.T, main, six *replayer)) {
	t.Helper()
	files, err := filepath.Glob("testdata/*/" + name + ".txt")
	if err != nil || len(files) < len(lab.BIRDs) {
		t.Fatalf("recordings %v (%v), want those of %d releases", files, err, len(lab.BIRDs))
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			main, six := replayers(t, dir, name)
			test(t, main, six)
		})
	}
}

func replayOptions(main, six *replayer) Options {
	o := Options{Via: ViaSocket, Socket: main.path, Socket6: main.path + ".none", Timeout: 5 * time.Second}
	if six != nil {
		o.Socket6 = six.path
	}
	return o
}

// F09: every release, with times of one and of two words.
func TestReplay(t *testing.T) {
	for _, name := range []string{"scene", "iso"} {
		t.Run(name, func(t *testing.T) {
			eachRecorded(t, name, func(t *testing.T, main, six *replayer) {
				o := replayOptions(main, six)
				d := newDaemons(o)
				defer d.close()
				for range 2 {
					sights, err := d.observe(t.Context(), o, scenePrefixes)
					if err != nil {
						t.Fatal(err)
					}
					if err := sceneStands(sights); err != nil {
						t.Error(err)
					}
				}
				if sessions, _ := main.count(); sessions != 1 {
					t.Errorf("%d sessions for two readings", sessions)
				}
			})
		})
	}
}

// F10: however a session breaks off, what comes of it is either unknown or the truth.
func TestReplayCut(t *testing.T) {
	eachRecorded(t, "scene", func(t *testing.T, main, six *replayer) {
		o := replayOptions(main, six)
		d := newDaemons(o)
		defer d.close()
		if _, err := d.main.read(t.Context(), "show status"); err != nil {
			t.Fatal(err)
		}
		ps := []netip.Prefix{sceneStatic, sceneRejected, sceneElsewhere}
		if _, err := observe(t.Context(), d.main, o, ps); err != nil {
			t.Fatal(err)
		}
		_, whole := main.count()
		const stride = 7
		for cut := 0; cut < whole; cut += stride {
			main.cutAt(cut)
			d := newDaemons(o)
			sights, err := observe(t.Context(), d.main, o, ps)
			d.close()
			for p, s := range sights {
				stage, detail := s.stage(1)
				switch {
				case err != nil && (stage != routers.Unknown || detail == ""):
					t.Fatalf("cut at %d: %s is %v (%s) beside error %v", cut, p, stage, detail, err)
				case err == nil && stage != sceneWants()[p].stage:
					t.Fatalf("cut at %d: %s is %v (%s)", cut, p, stage, detail)
				}
			}
			if len(sights) != len(ps) {
				t.Fatalf("cut at %d: sights of %d", cut, len(sights))
			}
		}
	})
}
