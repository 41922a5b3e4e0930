//go:build system

package system

import (
	"encoding/json"
	"os"
	"strings"
)

// journal looks at what the steps before have logged, and lets a check fail with what would break a log.
func journal(s *site) {
	stage := s.entry("VOUCH_KIND=stage", "VOUCH_STAGE=advertised")
	for field, want := range map[string]string{"VOUCH_SERVICE": "resolver", "VOUCH_PREFIX": vip.String(), "VOUCH_STAGE": "advertised",
		"SYSLOG_IDENTIFIER": "vouch", "PRIORITY": "6"} {
		if stage[field] != want {
			s.t.Errorf("%s=%v, want %s, in %v", field, stage[field], want, stage)
		}
	}
	for _, field := range []string{"MESSAGE_ID", "VOUCH_ROUTER"} {
		if stage[field] == nil {
			s.t.Errorf("no %s in %v", field, stage)
		}
	}
	// Woken by unbound's first closed socket, the check may ask one that is not read any more and not yet closed.
	if check := s.entry("VOUCH_KIND=check", "VOUCH_REASON=refused", "VOUCH_REASON=timeout"); check["VOUCH_CHECK"] != "dns" {
		s.t.Errorf("the check that failed is %v", check)
	}
	explained := s.do("journalctl", "-u", "vouch", "-x", "-q", "--no-pager", "VOUCH_KIND=stage")
	for _, want := range []string{"Subject: " + vip.String() + " was read to be advertised", "Defined-By: vouch", "what the routing tables say"} {
		if !strings.Contains(explained, want) {
			s.t.Errorf("journalctl -x lacks %q:\n%s", want, explained)
		}
	}
	hostile(s)
}

// hostile has a check fail with 200 kB of text with newlines and NULs: it is told, and nothing waits for it.
func hostile(s *site) {
	s.write("/usr/local/bin/hostile", "#!/bin/sh\nhead -c 200000 /dev/zero | tr '\\0' x\nprintf '\\0\\nBAD=1\\n\\033[31m\\n'\nhead -c 1000 /dev/zero\nexit 2\n")
	s.do("chmod", "755", "/usr/local/bin/hostile")
	text, err := os.ReadFile(s.file("/etc/vouch/vouch.toml"))
	must(s.t, err)
	s.config("", "[service.resolver.check.hostile]\ntype = \"exec\"\ncommand = [\"/usr/local/bin/hostile\"]\non_fail = \"warn\"\n")
	s.do("systemctl", "reload", "vouch")
	s.await("the hostile check to be told of", func() (bool, error) {
		out, err := s.try("journalctl", "-u", "vouch", "-q", "--no-pager", "-o", "json", "VOUCH_CHECK=hostile", "VOUCH_REASON=status")
		return out != "", err
	})
	e := s.entry("VOUCH_CHECK=hostile", "VOUCH_REASON=status")
	message, ok := e["MESSAGE"].(string)
	switch {
	case !ok:
		s.t.Errorf("the message is no text: %v", e["MESSAGE"])
	case len(message) > 4096 || strings.ContainsAny(message, "\n\x00\x1b"):
		s.t.Errorf("the message is %d bytes: %q", len(message), message)
	}
	if e["BAD"] != nil {
		s.t.Error("a check's output made a field of its own in the journal")
	}
	must(s.t, os.WriteFile(s.file("/etc/vouch/vouch.toml"), text, 0o644))
	s.do("systemctl", "reload", "vouch")
	die(s)
}

// entry gives the last journal entry that matches, with its fields.
func (s *site) entry(match ...string) map[string]any {
	s.t.Helper()
	out := s.do(append([]string{"journalctl", "-u", "vouch", "-q", "--no-pager", "-o", "json", "-n", "1"}, match...)...)
	fields := map[string]any{}
	if err := json.Unmarshal([]byte(out), &fields); err != nil {
		s.t.Fatalf("the journal has no entry for %v: %v: %s", match, err, out)
	}
	return fields
}
