package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"vouch/routers/vyos/vyostest/store"
	"vouch/routers/vyos/vyostest/tree"
)

// What commit says.
const (
	busyVyconf  = "Configuration system locked by another commit in progress"
	busy        = "Configuration system temporarily locked due to another commit in progress"
	failed      = "Commit failed"
	notMade     = "Failed to generate committed config"
	tempLeft    = "failed to remove temp directories"
	nodeFailed  = "[[protocols static]] failed"
	otherFailed = "[[service ssh]] failed"
	nodeHeader  = "[ protocols static ]"
)

// lock takes the lock of all commits, which lasts as long as this process, or fails at once.
func (c *call) lock() bool {
	f, err := os.OpenFile(c.Path(store.LockFile), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	// The file is left open: to close it would end the lock.
	return syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}) == nil
}

// hold takes the lock and keeps it until it is killed, or for as long as its argument says: a time, or "refusals" for
// as many commits as are to find it held.
func hold(c *call) int {
	if !c.lock() {
		return 1
	}
	fmt.Println("held")
	if args0(c.args, "") != "refusals" {
		time.Sleep(duration(args0(c.args, "")))
		return 0
	}
	for c.Left("lock-held") != 0 {
		time.Sleep(time.Millisecond)
	}
	return 0
}

// commit is my_commit.
func commit(c *call) int {
	if !c.open() {
		return crash
	}
	if !c.lock() {
		if _, ok := c.Take("lock-held", nil); ok {
			for c.Left("lock-held") == 0 && !c.lock() { // it was the last: the next one is to find it free
				time.Sleep(time.Millisecond)
			}
		}
		if c.Vyconf {
			return refuse(busyVyconf)
		}
		return refuse(busy)
	}
	active, err := c.Active()
	work, workErr := c.session.Config()
	if err != nil || workErr != nil {
		return refuse(notMade)
	}
	if len(tree.Diff(active, work)) == 0 {
		if c.Vyconf {
			fmt.Println("No changes to commit")
		}
		return status(c.SetActive(active) == nil && c.session.SetEdits(nil) == nil)
	}
	if code, done := c.refused(); done {
		return code
	}
	p := makePlan(c.Settings, active, work)
	c.verify(&p, work)
	partial, frrOnly := c.spoil(&p)
	if code := c.run(p); code != 0 {
		return refuse(nodeFailed, failed)
	}
	if partial == "other" || frrOnly {
		return refuse("", otherFailed, failed)
	}
	return c.end(work, partial == "ours")
}

// end makes the configuration the running one, once its scripts have run.
func (c *call) end(work tree.Tree, partial bool) int {
	if _, ok := c.Take("commit-internal", nil); ok {
		return refuse(notMade)
	}
	err := c.activate(work)
	if _, ok := c.Take("commit-temp-left", nil); ok || err != nil {
		return refuse(tempLeft, notMade)
	}
	time.Sleep(c.PostHook)
	if partial {
		return refuse("", otherFailed, failed)
	}
	return status(c.session.SetUnsaved(true) == nil)
}

// refused does what ends a commit before it does anything.
func (c *call) refused() (code int, done bool) {
	if c.record.UID != 0 && !c.sudo() {
		return refuse(nodeHeader, "sudo: a terminal is required to read the password; either use the -S option to read from standard input or configure an askpass helper",
			"sudo: a password is required", "", nodeFailed, failed), true
	}
	if _, ok := c.Take("commit-delete-failed", nil); ok {
		return refuse("delete "+nodeHeader+" failed", failed), true
	}
	return 0, false
}

// sudo says whether this user may become root.
func (c *call) sudo() bool {
	gid, _ := c.Group("sudo")
	n, err := strconv.Atoi(gid)
	return err == nil && (c.record.GID == n || slices.Contains(c.record.Groups, n))
}

// verify has the script refuse a prefix of which nothing is told, as it does before 1.4.
func (c *call) verify(p *plan, work tree.Tree) {
	if p.Style != store.Incremental {
		return
	}
	for _, node := range []string{"route", "route6"} {
		for _, prefix := range work.Children("protocols static " + node) {
			if at := "protocols static " + node + " " + prefix; !work[at+" blackhole"] && !work[at+" next-hop"] {
				p.Refused = true
				p.Reason = []string{"Must add either a next-hop or blackhole or dhcp-interface for route " + prefix}
			}
		}
	}
}

// spoil puts the faults of a commit into its plan. It gives what happens to the rest of the commit.
func (c *call) spoil(p *plan) (partial string, frrOnly bool) {
	if args, ok := c.Take("commit-refused", nil); ok {
		p.Refused, p.Reason = true, []string{args0(args, "The script refuses")}
	}
	if _, ok := c.Take("commit-refused-silent", nil); ok {
		p.Refused = true
	}
	if _, ok := c.Take("commit-daemon-down", nil); ok {
		p.Down = true
	}
	if _, ok := c.Take("commit-no-frr", nil); ok {
		p.Skip = true
	}
	if args, ok := c.Take("commit-hang", nil); ok {
		p.Before = duration(args0(args, "forever"))
	}
	if args, ok := c.Take("commit-slow", nil); ok {
		p.Before = duration(args0(args, "15s"))
	}
	if args, ok := c.Take("commit-late", nil); ok {
		p.Style, p.Before = store.RerenderLate, duration(args0(args, "1s"))
	} else if p.Style == store.RerenderLate {
		p.Before += c.Late
	}
	if _, ok := c.Take("commit-killed", nil); ok {
		p.Kill = syscall.Getpgrp()
	}
	if _, ok := c.Take("commit-partial-ours", nil); ok {
		partial = "ours"
	}
	if _, ok := c.Take("commit-partial-other", nil); ok {
		partial, p.Skip = "other", true
	}
	_, frrOnly = c.Take("commit-frr-only", nil)
	return partial, frrOnly
}

// activate makes the session's configuration the running one.
func (c *call) activate(work tree.Tree) error {
	if args, ok := c.Take("active-empty", nil); ok {
		if err := c.SetActive(tree.Tree{}); err != nil {
			return err
		}
		time.Sleep(duration(args0(args, "2ms")))
	}
	if err := c.SetActive(work); err != nil {
		return err
	}
	return c.session.SetEdits(nil)
}

// run runs the script that changes FRR, in a process that nobody who kills this one reaches, and waits for it;
// but not in the style that answers first, where what becomes of FRR nobody is told.
func (c *call) run(p plan) int {
	p.Turn = time.Now().UnixNano()
	plan, err := json.Marshal(p)
	if err != nil {
		return refuse(err.Error())
	}
	path := os.Getenv("vyos_conf_scripts_dir") + "/protocols_static.py"
	if p.Style == store.Incremental { // there the template itself calls vtysh
		path = c.Path("/usr/libexec/vyos/conf_mode/protocols_static.py")
	}
	if _, err := os.Stat(path); err != nil {
		return refuse("sh: 1: " + path + ": not found")
	}
	late := p.Style == store.RerenderLate && !p.Refused
	files := []*os.File{nil, os.Stdout, os.Stderr}
	if late {
		files = []*os.File{nil, nil, nil}
	}
	proc, err := os.StartProcess(path, []string{path, string(plan)}, &os.ProcAttr{
		Files: files, Env: os.Environ(), Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return refuse(err.Error())
	}
	if late {
		time.Sleep(c.Delay)
		return 0
	}
	state, err := proc.Wait()
	if err != nil {
		return refuse(err.Error())
	}
	return state.ExitCode()
}

// text is that of an error, and nothing for none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// script is what commit runs for protocols static.
func script(c *call) int {
	var p plan
	if len(c.args) != 1 || json.Unmarshal([]byte(c.args[0]), &p) != nil {
		return 2
	}
	say, err := c.speech(p.Style)
	if err != nil {
		return refuse(err.Error())
	}
	time.Sleep(p.Before)
	said := "Exiting: failed to connect to any daemons."
	switch {
	case p.Refused:
		if len(p.Reason) > 0 {
			say(strings.Join(p.Reason, "\n"))
		}
		return 1
	case p.Skip:
		said = ""
	case !p.Down:
		said = text(c.inTurn(p))
	}
	if said != "" {
		fmt.Printf("%s\nVyOS had an issue completing a command.\n\nTraceback (most recent call last):\n%s\n\n", nodeHeader, said)
		return 1
	}
	if p.Kill != 0 {
		_ = syscall.Kill(-p.Kill, syscall.SIGKILL)
	}
	time.Sleep(p.After)
	return 0
}
