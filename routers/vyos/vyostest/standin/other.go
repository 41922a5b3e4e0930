package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"

	"vouch/routers/vyos/vyostest/store"
)

// become replaces this process by a program.
func (c *call) become(path string, args, env []string) int {
	c.silent = true
	c.after(0)
	fmt.Fprintln(os.Stderr, syscall.Exec(path, args, env))
	return 126
}

// switchGroup is sg: it runs a command with another group, where the user is root or a member.
func switchGroup(c *call) int {
	args := slices.DeleteFunc(slices.Clone(c.args), func(a string) bool { return a == "-c" })
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "Usage: sg group [[-c] command]")
		return 1
	}
	gid, _ := c.Group(args[0])
	n, err := strconv.Atoi(gid)
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "sg: group '%s' does not exist\n", args[0])
		return 1
	case c.record.UID != 0 && c.record.GID != n && !slices.Contains(c.record.Groups, n):
		fmt.Fprint(os.Stderr, "Password: \nInvalid password.\n")
		return 1
	}
	if err := syscall.Setgid(n); err != nil {
		fmt.Fprintln(os.Stderr, "sg:", err)
		return 1
	}
	return c.become("/bin/sh", []string{"sh", "-c", args[1]}, os.Environ())
}

// vtysh is FRR's own, with the sockets of this system.
func vtysh(c *call) int {
	args := append(slices.Clone(c.Settings.Vtysh), "--vty_socket", c.SocketDir)
	return c.become(args[0], append(args, c.args...), os.Environ())
}

// systemctl knows of one unit: the timer of a commit that waits to be confirmed.
func systemctl(c *call) int {
	if len(c.args) < 2 || c.args[0] != "is-active" {
		fmt.Fprintln(os.Stderr, "Unknown command verb.")
		return 1
	}
	quiet := slices.Contains(c.args, "--quiet") || slices.Contains(c.args, "-q")
	_, err := os.Stat(c.Path(store.Timer))
	active := err == nil && slices.ContainsFunc(c.args, func(a string) bool { return a == "commit-confirm.timer" || a == "commit-confirm" })
	switch {
	case quiet:
	case active:
		fmt.Println("active")
	default:
		fmt.Println("inactive")
	}
	if active {
		return 0
	}
	return 3
}

// save is vyos-save-config.py: before the boot is done, or where /tmp is another, it writes nothing over all.
func save(c *call) int {
	path := store.Saved
	if len(c.args) > 0 {
		path = c.args[0]
	}
	text := "// Warning: Do not remove the following line.\n// vyos-config-version: \"\"\n// Release version: standin\n"
	if _, err := os.Stat(c.Path(store.Boot)); err == nil {
		active, err := c.Active()
		if err != nil {
			return refuse(err.Error())
		}
		text = active.Braces() + text
	}
	if err := c.Write(path, text, 0o664); err != nil {
		return refuse(err.Error())
	}
	return 0
}
