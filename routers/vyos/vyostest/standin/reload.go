package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"vouch/routers/command"
	"vouch/routers/vyos/vyostest/store"
)

// A line is one of FRR's configuration, below those that lead to it.
type line struct {
	in   []string
	text string
}

func (l line) key() string { return strings.Join(append(slices.Clone(l.in), l.text), "\n") }

// lines reads a configuration of FRR without what a reload leaves alone, and without static routes.
func lines(text string) []line {
	var all []line
	var in []string
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, "\n")
		words := strings.Fields(l)
		if len(words) == 0 || strings.HasPrefix(words[0], "exit") || slices.Contains(left, words[0]) {
			continue
		}
		if static := words[0] == "ip" || words[0] == "ipv6"; static && len(words) > 1 && words[1] == "route" {
			continue
		}
		in = in[:min(len(in), len(l)-len(strings.TrimLeft(l, " ")))]
		all = append(all, line{slices.Clone(in), strings.Join(words, " ")})
		in = append(in, strings.Join(words, " "))
	}
	return all
}

// left begins what is no daemon's routing.
var left = []string{"!", "Building", "Current", "frr", "hostname", "log", "service", "line", "end", "agentx", "password", "domainname"}

// changes gives the commands that make one configuration of another.
func changes(from, to []line) []string {
	have, want := map[string]bool{}, map[string]bool{}
	for _, l := range from {
		have[l.key()] = true
	}
	for _, l := range to {
		want[l.key()] = true
	}
	var commands []string
	gone := ""
	for _, l := range from {
		switch {
		case want[l.key()], gone != "" && strings.HasPrefix(l.key(), gone+"\n"), strings.HasPrefix(l.text, "address-family "):
			continue // it stays, or goes with what it is in, or with what is in it
		}
		gone = l.key()
		commands = append(commands, l.at("no "+l.text)...)
	}
	for _, l := range to {
		if !have[l.key()] {
			commands = append(commands, l.at(l.text)...)
		}
	}
	return commands
}

// at leads to where the line is, from anywhere.
func (l line) at(command string) []string {
	return append(append([]string{"end", "configure terminal"}, l.in...), command)
}

// reload takes all that FRR was told behind VyOS's back away again, of whatever daemon.
func (c *call) reload(p plan) error {
	text, err := os.ReadFile(c.Path(store.Rendered))
	if err != nil {
		return nil // only static routes are this system's
	}
	running, err := c.vtysh("", "show running-config")
	if err != nil {
		return err
	}
	want := lines(string(text))
	if !p.BGP {
		want = slices.DeleteFunc(want, func(l line) bool { return strings.HasPrefix(l.key(), "router bgp") })
	}
	commands := changes(lines(running), want)
	if len(commands) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = command.Run(ctx, command.Spec{Path: c.Settings.Vtysh[0], Stdin: strings.Join(commands, "\n") + "\n",
		Args: append(slices.Clone(c.Settings.Vtysh[1:]), "--vty_socket", c.SocketDir)})
	return err
}
