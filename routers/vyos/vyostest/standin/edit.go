package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"vouch/routers/vyos/vyostest/store"
	"vouch/routers/vyos/vyostest/tree"
)

// owner is the user that a file belongs to, or -1.
func owner(path string) int {
	info, err := os.Stat(path)
	if err != nil {
		return -1
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// refuse says why on stdout.
func refuse(lines ...string) int {
	for _, l := range lines {
		fmt.Println(l)
	}
	return 1
}

// path is how messages name the one that was asked for.
func (c *call) path() string { return "Configuration path: " + tree.Quoted(c.args) }

// add puts one more edit to those of the session.
func (c *call) add(e store.Edit) error {
	if c.record.UID != 0 && !c.MayCommit() {
		return errors.New("the running configuration is another group's")
	}
	all, err := c.session.Edits()
	if err != nil {
		return err
	}
	return c.session.SetEdits(append(all, e))
}

// set is my_set.
func set(c *call) int {
	if !c.open() {
		return crash
	}
	if _, ok := c.Take("set-failed", c.at("")); ok {
		return refuse("Set failed")
	}
	its := func(args []string) bool { return len(args) == 0 || slices.Contains(c.args, args[0]) }
	if args, ok := c.Take("set-rejected", its); ok {
		return refuse("Error: "+args0(args, "it")+" is not valid", "Invalid value", "Value validation failed", "Set failed")
	}
	switch f := tree.Check(c.args); {
	case f == nil:
	case f.Invalid:
		return refuse(c.path()+" is not valid", "Set failed")
	case f.Value != "":
		return refuse("Error: "+f.Value, "Invalid value", "Value validation failed", "Set failed")
	case f.Incomplete:
		return refuse(c.path()+" requires a value", "Set failed")
	}
	work, err := c.session.Config()
	at := tree.Path(c.args...)
	switch {
	case err != nil:
		return refuse("Set failed")
	case work[at]:
		fmt.Println(c.path() + " already exists")
		return 0
	}
	if c.add(store.Edit{Path: at}) != nil {
		return refuse("Set failed")
	}
	return 0
}

// args0 is the first argument of a fault, or what is usual.
func args0(args []string, usual string) string {
	if len(args) > 0 && args[0] != "" {
		return args[0]
	}
	return usual
}

// remove is my_delete.
func remove(c *call) int {
	if !c.open() {
		return crash
	}
	if _, ok := c.Take("set-failed", c.at("")); ok {
		return refuse("Set failed")
	}
	if !tree.Known(c.args) {
		return refuse(c.path()+" is not valid", "Delete failed")
	}
	work, err := c.session.Config()
	at := tree.Path(c.args...)
	switch kind := tree.Kind(c.args); {
	case err != nil:
		return refuse("Delete failed")
	case work[at]:
	case kind == tree.Value:
		fmt.Println("Nothing to delete (the specified value does not exist)")
		return 0
	default:
		fmt.Println("Nothing to delete (the specified node does not exist)")
		return 0
	}
	if c.add(store.Edit{Delete: true, Path: tree.Gone(work, at, c.Collapse)}) != nil {
		return refuse("Delete failed")
	}
	return 0
}

// discard is my_discard.
func discard(c *call) int {
	if !c.open() {
		return crash
	}
	all, err := c.session.Edits()
	if err != nil || c.session.SetEdits(nil) != nil {
		return refuse("Discard failed")
	}
	if len(all) == 0 {
		fmt.Println("No changes have been discarded")
		return 0
	}
	fmt.Println("Changes have been discarded")
	return 0
}
