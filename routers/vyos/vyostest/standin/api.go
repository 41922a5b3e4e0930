package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"vouch/routers/vyos/vyostest/store"
	"vouch/routers/vyos/vyostest/tree"
)

// A request is what cli-shell-api was asked.
type request struct {
	verb       string
	args       []string
	cfg1, cfg2 string
	commands   bool
	active     bool
}

// parse takes options wherever they stand, as getopt does.
func parse(args []string) request {
	var r request
	var words []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--":
			words = append(words, args[i+1:]...)
			i = len(args)
		case a == "--show-cfg1" && i+1 < len(args):
			i++
			r.cfg1 = args[i]
		case a == "--show-cfg2" && i+1 < len(args):
			i++
			r.cfg2 = args[i]
		case a == "--show-commands":
			r.commands = true
		case a == "--show-active-only":
			r.active = true
		case !strings.HasPrefix(a, "--"):
			words = append(words, a)
		}
	}
	if len(words) > 0 {
		r.verb, r.args = words[0], words[1:]
	}
	return r
}

// api is cli-shell-api.
func api(c *call) int {
	r := parse(c.args)
	verbs := map[string]func(*call, request) int{
		"getSessionEnv": sessionEnv, "setupSession": setup, "teardownSession": teardown,
		"inSession":      func(c *call, _ request) int { return status(c.open()) },
		"sessionChanged": changed, "sessionUnsaved": func(c *call, _ request) int { return status(c.open() && c.session.Unsaved()) },
		"markSessionUnsaved":   func(c *call, _ request) int { return status(c.open() && c.session.SetUnsaved(true) == nil) },
		"unmarkSessionUnsaved": func(c *call, _ request) int { return status(c.open() && c.session.SetUnsaved(false) == nil) },
		"existsActive":         existsActive, "exists": exists,
		"listActiveNodes": listActive, "listNodes": listNodes,
		"returnActiveValue": activeValue,
		"showConfig":        show, "showCfg": show,
		"getEditLevelStr": nothing, "editLevelAtRoot": nothing, "getEditResetEnv": nothing,
	}
	f := verbs[r.verb]
	if f == nil {
		fmt.Fprintln(os.Stderr, "Invalid operation")
		return 255
	}
	c.silent = r.verb != "setupSession" && r.verb != "teardownSession"
	return f(c, r)
}

// status is 0 for what is so.
func status(is bool) int {
	if is {
		return 0
	}
	return 1
}

func nothing(*call, request) int { return 0 }

// sessionEnv prints what a shell evaluates to be in a session. The first of the variables has no semicolon
// after it in the real one either.
func sessionEnv(c *call, r request) int {
	if len(r.args) != 1 {
		return 255
	}
	s := store.Session{Store: c.Store, ID: r.args[0]}
	const declare = " declare -x -r "
	fmt.Print(" umask 002; {",
		declare, "VYATTA_ACTIVE_CONFIGURATION_DIR=", c.Path(store.ActiveDir),
		declare, "VYATTA_CHANGES_ONLY_DIR=", s.Change(), ";",
		declare, "VYATTA_TEMP_CONFIG_DIR=", s.Work(), ";",
		declare, "VYATTA_CONFIG_TMP=", s.Tmp(), ";",
		declare, "VYATTA_CONFIG_TEMPLATE=", c.Path("/opt/vyatta/share/vyatta-cfg/templates"), ";",
		" } >&/dev/null || true")
	return 0
}

// setup opens the session of the environment. It answers 0 whatever became of the mount.
func setup(c *call, _ request) int {
	if os.Getenv("VYATTA_TEMP_CONFIG_DIR") == "" {
		return 1
	}
	if c.record.UID != 0 {
		c.reap()
	}
	_, missing := c.Take("mount-missing", nil)
	info, err := os.Stat(c.Path("/dev/fuse"))
	fuse := err == nil && info.Mode()&os.ModeCharDevice != 0
	return status(c.session.Open(fuse && !missing) == nil)
}

// reap closes the other sessions of the same user that are not of a living vbash.
func (c *call) reap() {
	for _, id := range c.Sessions() {
		s := store.Session{Store: c.Store, ID: id}
		name, _ := os.ReadFile(filepath.Join("/proc", id, "comm"))
		if id != c.session.ID && owner(s.Work()) == c.record.UID && strings.TrimSpace(string(name)) != "vbash" {
			_ = s.Close()
		}
	}
}

func teardown(c *call, _ request) int {
	if !c.open() {
		return 1
	}
	if _, ok := c.Take("teardown-fails", nil); ok {
		return 1
	}
	if _, ok := c.Take("teardown-leaves", nil); ok {
		fmt.Fprintf(os.Stderr, "fusermount: failed to unmount %s: Invalid argument\n", c.session.Work())
		return 0
	}
	return status(c.session.Close() == nil)
}

func changed(c *call, _ request) int {
	if !c.open() {
		return 1
	}
	is, err := c.session.Changed()
	return status(err == nil && is)
}

func existsActive(c *call, r request) int {
	active, err := c.Active()
	return status(err == nil && active[tree.Path(r.args...)])
}

func exists(c *call, r request) int {
	if !c.open() {
		return 1
	}
	work, err := c.session.Config()
	return status(err == nil && work[tree.Path(r.args...)])
}

func listActive(c *call, r request) int {
	active, err := c.Active()
	fmt.Print(tree.Quote(active.Children(tree.Path(r.args...))))
	return status(err == nil)
}

func listNodes(c *call, r request) int {
	if !c.open() {
		return 1
	}
	work, err := c.session.Config()
	fmt.Print(tree.Quote(work.Children(tree.Path(r.args...))))
	return status(err == nil)
}

func activeValue(c *call, r request) int {
	active, err := c.Active()
	values := active.Children(tree.Path(r.args...))
	if err != nil || len(values) != 1 {
		return 1
	}
	fmt.Print(values[0])
	return 0
}

// show prints a configuration, or with two of them what makes the second of the first.
func show(c *call, r request) int {
	active, err := c.Active()
	work := tree.Tree{}
	if c.open() && err == nil {
		work, err = c.session.Config()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if !c.open() && (r.cfg1 == "@WORKING" || r.cfg2 == "@WORKING") {
		return crash
	}
	config := map[string]tree.Tree{"@ACTIVE": active, "@WORKING": work}
	if r.cfg1 != "" {
		config[""] = tree.Tree{}
		return print(r, config[r.cfg1], config[r.cfg2])
	}
	if !r.active && c.open() {
		active = work
	}
	return print(r, tree.Tree{}, active)
}

// print prints what is in b and not in a, below the path that was asked for. Commands name the nodes from the last of
// that on, and fail where there is nothing.
func print(r request, a, b tree.Tree) int {
	at := tree.Path(r.args...)
	if at != "" {
		a, b = a.Below(at), b.Below(at)
	}
	if r.commands && at != "" && len(a) == 0 && len(b) == 0 {
		fmt.Fprintln(os.Stderr, "_get_cmds_diff error (both config NULL)")
		return 1
	}
	above := ""
	if len(r.args) > 1 {
		above = tree.Quote(r.args[:len(r.args)-1]) + " "
	}
	lines := tree.Diff(a, b)
	if !r.commands {
		fmt.Print(b.Braces())
		return 0
	}
	for _, l := range lines {
		fmt.Println(strings.Replace(l, " "+above, " ", 1))
	}
	return 0
}
