// Command standin is every program of VyOS's configuration system that a driver may run, below the root of a
// package vyostest. Which of them it is, and where the root is, its own path tells.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"vouch/routers/vyos/vyostest/store"
)

// crash is what a shell makes of a death by SIGSEGV.
const crash = 139

// programs are what runs at each place below the root, and gives the exit status.
var programs = map[string]func(*call) int{
	"/usr/bin/cli-shell-api":                          api,
	"/opt/vyatta/sbin/my_set":                         set,
	"/opt/vyatta/sbin/my_delete":                      remove,
	"/opt/vyatta/sbin/my_commit":                      commit,
	"/opt/vyatta/sbin/my_discard":                     discard,
	"/usr/bin/sg":                                     switchGroup,
	"/usr/bin/vtysh":                                  vtysh,
	"/usr/bin/systemctl":                              systemctl,
	"/usr/libexec/vyos/vyos-save-config.py":           save,
	"/usr/libexec/vyos/conf_mode/protocols_static.py": script,
	store.Hidden + "/expand":                          expand,
	store.Hidden + "/hold":                            hold,
}

// A call is one run of one program.
type call struct {
	store.Store
	store.Settings
	record  store.Call
	args    []string
	session store.Session
	silent  bool // an answer that nothing may be added to
}

func main() { os.Exit(run()) }

func run() int {
	c, program, err := begin()
	if err != nil {
		fmt.Fprintln(os.Stderr, "standin:", err)
		return 126
	}
	c.before()
	code := program(c)
	c.after(code)
	if code == crash {
		return die()
	}
	return code
}

// begin finds out who is called, and says so where the test can read it.
func begin() (*call, func(*call) int, error) {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, nil, err
	}
	for path, f := range programs {
		root, ok := strings.CutSuffix(self, path)
		if !ok {
			continue
		}
		c := &call{Store: store.Store{Root: root}, args: os.Args[1:]}
		if c.Settings, err = c.Store.Settings(); err != nil {
			return nil, nil, err
		}
		dir := os.Getenv("VYATTA_TEMP_CONFIG_DIR")
		c.session = store.Session{Store: c.Store, ID: strings.TrimPrefix(filepath.Base(dir), "new_config_")}
		groups, _ := os.Getgroups()
		mask := syscall.Umask(0)
		syscall.Umask(mask)
		c.record = store.Call{Program: path, Args: c.args, Env: os.Environ(), PID: os.Getpid(), UID: os.Geteuid(),
			GID: os.Getegid(), Groups: groups, Umask: mask, Started: time.Now()}
		process := c.Path(store.Processes, strconv.Itoa(os.Getpid()))
		return c, f, errors.Join(c.Record(c.record), os.WriteFile(process, []byte(path), 0o666))
	}
	return nil, nil, fmt.Errorf("%s is none of its programs", self)
}

// open says whether the caller's environment has a session that is there.
func (c *call) open() bool {
	if os.Getenv("VYATTA_TEMP_CONFIG_DIR") == "" {
		return false
	}
	info, err := os.Stat(c.session.Work())
	return err == nil && info.IsDir()
}

// at says whether a fault is meant for this program: its first argument is the verb, or it has none and the
// verb is usual.
func (c *call) at(usual string) func([]string) bool {
	return func(args []string) bool {
		if len(args) > 0 && args[0] != "" {
			return args[0] == c.record.Verb()
		}
		return usual == "" || usual == c.record.Verb()
	}
}

// before does the faults that come before the program does anything.
func (c *call) before() {
	if _, ok := c.Take("kill-caller", c.at("my_commit")); ok {
		_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
	}
	if args, ok := c.Take("slow", c.at("")); ok && len(args) > 1 {
		time.Sleep(duration(args[1]))
	}
	if args, ok := c.Take("held-up", c.at("")); ok && len(args) > 1 {
		for _, err := os.Stat(args[1]); err != nil; _, err = os.Stat(args[1]) {
			time.Sleep(time.Millisecond)
		}
	}
}

// after does the faults that come when the program is done, and tells the test of its end.
func (c *call) after(code int) {
	if code == 0 && !c.silent {
		if args, ok := c.Take("noisy", c.at("")); ok {
			c.noise(args)
		}
	}
	if c.counted() {
		if _, ok := c.Take("boot-absent", nil); ok && c.Left("boot-absent") == 0 {
			_ = c.Write(store.Boot, "0", 0o664)
		}
	}
	if _, ok := c.Take("fuse-dies", c.at("my_set")); ok {
		_ = c.session.SetMounted(false)
	}
	if _, ok := c.Take("session-stolen", c.at("my_set")); ok {
		_ = c.session.Close()
	}
	c.record.Ended, c.record.Code = true, code
	_ = c.Record(c.record)
	_ = os.Remove(c.Path(store.Processes, strconv.Itoa(os.Getpid())))
}

// counted says whether this is a program of the configuration system that others run.
func (c *call) counted() bool {
	return c.record.Program == "/usr/bin/cli-shell-api" || strings.HasPrefix(c.record.Program, "/opt/vyatta/sbin/")
}

// noise is what programs say that did well, by its second argument.
func (c *call) noise(args []string) {
	switch kind := slices.Concat(args, []string{"", ""})[1]; kind {
	case "binary":
		os.Stdout.Write([]byte("\xff\xfe\x00\x80 latin: \xe9\n"))
	case "big":
		for range 1 << 20 / 64 {
			fmt.Println(strings.Repeat("x", 63))
		}
	case "failed":
		fmt.Println("Warning: the last Commit failed, [[service ssh]] failed, and this one did not")
	default:
		fmt.Println("sudo: unable to resolve host vyos: Name or service not known")
	}
}

// die ends the process by SIGSEGV, which a Go program cannot do by itself without words.
func die() int {
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	err := syscall.Exec("/bin/sh", []string{"sh", "-c", "kill -SEGV $$"}, os.Environ())
	fmt.Fprintln(os.Stderr, "standin:", err)
	return crash
}

// duration reads an argument of a fault; "" and "forever" are longer than any test.
func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		return time.Hour
	}
	return d
}
