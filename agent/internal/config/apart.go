package config

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// keepApart refuses to have vouch write BIRD's part of the configuration where something else is.
func keepApart(t *table, c *Config) {
	r := c.Router
	sockets := []string{r.Socket, r.Socket6, c.Control.Socket}
	for _, f := range []struct{ key, value, other, otherKey string }{{"include", r.Include, "", ""}, {"include6", r.Include6, r.Include, "include"}} {
		if !t.has(f.key) || !t.good(f.key) {
			continue
		}
		base := path.Base(f.value)
		switch what := taken(f.value, c, sockets); {
		case base == "bird.conf" || base == "bird6.conf":
			own := path.Join(path.Dir(f.value), strings.Replace(base, "bird", "vouch", 1))
			t.refuse(f.key, "is BIRD's own configuration by its name", fmt.Sprintf("write %q, a file which that one includes", own))
		case f.value == f.other:
			t.refuse(f.key, "is "+f.otherKey+" as well", "name another file, or leave it out: only BIRD 1.6 needs a second one")
		case what != "":
			t.refuse(f.key, "is "+what, `name a file of its own, such as "/var/lib/vouch/vouch.conf"`)
		}
	}
	if t.has("socket6") && t.good("socket", "socket6") && r.Socket == r.Socket6 {
		t.refuse("socket6", "is socket as well", "name that of bird6, or leave it out: only BIRD 1.6 has a second one")
	}
}

// taken says what a path is already known to be; nothing when nobody has it.
func taken(file string, c *Config, sockets []string) string {
	known := append(slices.Clone(sockets), c.Agent.StateFile, c.File)
	dirs := []string{"/etc", "/etc/bird", "/etc/vouch", "/run", "/run/bird", "/run/vouch", "/tmp", "/var", "/var/lib"}
	for _, k := range known {
		dirs = append(dirs, path.Dir(k))
	}
	switch {
	case slices.Contains(sockets, file):
		return "a socket as well"
	case slices.Contains(known, file):
		return "another file of vouch's as well"
	case slices.Contains(dirs, file):
		return "a directory"
	}
	return ""
}
