package vyos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"vouch/routers"
)

// The exit statuses of our script that are not vbash's own; those below are said by anything.
const (
	exitNotMounted = 90
	exitForeign    = 91
	exitUnsettled  = 92
)

// script makes the changes by a script of vbash. There every command says that it went well, so its words count,
// and what VyOS has afterwards.
func (t *transaction) script(ctx context.Context, group uint32) error {
	s := &session{system: t.system, group: group, step: t.options.Step, env: t.system.environment()}
	t.sweep(ctx, s)
	until := time.Now().Add(t.options.LockWait)
	for {
		if err := t.free(ctx, until); err != nil {
			return err
		}
		if err := broken(ctx); err != nil {
			return err
		}
		allowed, err := t.allowed(ctx)
		if err != nil {
			return err
		}
		out, err := t.runScript(s, allowed)
		if err != nil {
			return err
		}
		switch {
		case out.verdict != busy:
			return routers.Join(t.readBack(ctx, out), t.save(s, out))
		case time.Now().After(until):
			return t.locked()
		}
		if err := pause(ctx, lockMin); err != nil {
			return routers.Join(t.locked(), err)
		}
	}
}

// runScript runs the script once, and sees to it that its session ends with it.
func (t *transaction) runScript(s *session, allowed scope) (outcome, error) {
	spec := s.spec(s.path(vbash), "-s")
	spec.Stdin = scriptText(s.system, t.ops, allowed, t.options.leaves())
	t.commits(true)
	pid, out, err := s.lastingPID(spec)
	t.commits(false)
	if err != nil {
		return outcome{}, err
	}
	if err := t.tidy(s, strconv.Itoa(pid)); err != nil {
		return outcome{}, err
	}
	switch out.Code {
	case exitNotMounted:
		return outcome{failed, "nothing was committed, as the session is not mounted (unionfs-fuse does not run?): a commit would erase the configuration"}, nil
	case exitUnsettled:
		return outcome{}, routers.Errorf(routers.ErrBusy, "nothing was committed: %s", cmp.Or(t.system.unsettled(), "a commit-confirm was pending for a moment"))
	case exitForeign:
		return outcome{failed, "nothing was committed, as the session would change what is not ours: " + reason(text(out))}, nil
	}
	return classifyScript(out), nil
}

// sweep ends what scripts left that were killed: whoever gets the process id of one, as an operator's shell may, would
// find its directories there, mount nothing, and erase the configuration by a commit. What stays vouch doctor names.
func (t *transaction) sweep(ctx context.Context, s *session) {
	for _, id := range s.dead() {
		left, err := newSession(ctx, s.system, id, s.group, s.step)
		if err != nil {
			return
		}
		info, err := os.Stat(left.work)
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == os.Geteuid() && left.user() == 0 {
			_ = left.close()
		}
	}
}

// tidy ends what is left of the script's session, which goes by its process.
func (t *transaction) tidy(s *session, id string) error {
	if _, err := os.Lstat(s.path(sessionsDir, sessionDirs[0]+id)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	left, err := newSession(context.Background(), s.system, id, s.group, s.step)
	if err != nil {
		return err
	}
	return left.close()
}

// scriptText writes the script. Vbash takes its verbs for its own only where a line begins with one, so none stands
// anywhere else; and exit, which is one of them, ends no script.
func scriptText(s system, ops []op, allowed scope, own leaves) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	api := shellQuote(s.path(cliShellAPI))
	line("source %s", shellQuote(s.path("opt/vyatta/etc/functions/script-template")))
	line("vouch_end () { %s teardownSession; builtin exit \"$1\"; }", api)
	line("vouch_mounted () { grep -qF \" $VYATTA_TEMP_CONFIG_DIR fuse\" %s || vouch_end %d; }", shellQuote(s.path(mountsFile)), exitNotMounted)
	line("vouch_mounted")
	for _, o := range ops {
		line("%s", o.line())
	}
	line("vouch_diff=$(%s --show-cfg1 @ACTIVE --show-cfg2 @WORKING --show-commands showConfig) || vouch_end %d", api, exitForeign)
	line("vouch_diff=${vouch_diff//\\'/}")
	line("vouch_other=$(printf '%%s\\n' \"$vouch_diff\" | grep -vxF -e ''%s)", allowedWords(allowed.lines(own.tag)))
	none := fmt.Sprintf("[ -z \"$vouch_other\" ] || { printf '%%s\\n' \"$vouch_other\"; vouch_end %d; }", exitForeign)
	line("%s", none)
	if names := guarded(ops); len(names) > 0 {
		line("vouch_have=$(%s --show-active-only --show-commands showConfig protocols static 2>&1) || [[ $vouch_have == *'both config NULL'* ]] || vouch_end %d", api, exitForeign)
		line("vouch_other=$(printf '%%s\\n' \"${vouch_have//\\'/}\" | grep -F%s | grep -vE %s)", allowedWords(names), shellQuote(own.pattern()))
		line("%s", none)
	}
	line("vouch_only () { vouch_may=\" $1 \"; shift; vouch_below=$(%s listActiveNodes \"$@\") || vouch_end %d; for vouch_one in ${vouch_below//\\'/}; do "+
		"[[ $vouch_may == *\" $vouch_one \"* ]] || { printf '%%s\\n' \"$* has got $vouch_one\"; vouch_end %[2]d; }; done; }", api, exitForeign)
	for _, o := range allowed.onlys(ops) {
		line("vouch_only %s %s", shellQuote(strings.Join(o.children, " ")), o.path)
	}
	if slices.ContainsFunc(ops, op.fresh) {
		line("for vouch_one in %s %s; do [ ! -e \"$vouch_one\" ] || vouch_end %d; done", shellQuote(s.path(confirmTimer)), shellQuote(s.path(shutdownPlan)), exitUnsettled)
	}
	line("vouch_mounted")
	line("commit")
	line("vouch_end 0")
	return b.String()
}

// guarded gives the beginnings of what is there of the nodes that the ops set or delete whole, and of the blackholes
// that they delete.
func guarded(ops []op) []string {
	var all []string
	for _, o := range ops {
		begins := " " + strings.Join(o.path[1:4], " ") + " "
		if o.partial() {
			begins += "blackhole"
		}
		all = append(all, begins)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// pattern matches the lines of what is ours there.
func (l leaves) pattern() string {
	return fmt.Sprintf("^set (protocols )?static route6? [^ ]+ blackhole( tag %d| distance %d)?$", l.tag, l.distance)
}

func allowedWords(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(" -e " + shellQuote(l))
	}
	return b.String()
}

func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// lines gives all lines of a scope, without quotes. A tag that is deleted may be named with its value.
func (s scope) lines(tag uint32) []string {
	all := slices.Sorted(maps.Keys(s))
	for _, l := range all {
		if strings.HasPrefix(l, "delete ") && strings.HasSuffix(l, " blackhole tag") {
			all = append(all, fmt.Sprintf("%s %d", l, tag))
		}
	}
	return all
}

// An only is a node of the running configuration, and what may be below it when a session deletes all of it.
type only struct {
	path     string
	children []string
}

// onlys are the nodes above those of the prefixes that the ops may delete whole, by what the scope allows.
func (s scope) onlys(ops []op) []only {
	var all []only
	const static = "protocols static"
	gone := map[string][]string{}
	for _, o := range ops {
		if o.whole() {
			gone[o.path[2]] = append(gone[o.path[2]], o.path[3])
		}
	}
	empty := only{path: static}
	for _, family := range []string{"route", "route6"} {
		if s["delete "+static+" "+family] {
			all = append(all, only{static + " " + family, gone[family]})
			empty.children = append(empty.children, family)
		}
	}
	if s["delete "+static] {
		all = append(all, empty)
	}
	if s["delete protocols"] {
		all = append(all, only{"protocols", []string{"static"}})
	}
	return all
}

// readBack wants VyOS's configuration to have what the script was to make. Where VyOS refused something, that is told
// of what is not there; every other failure counts also when all is.
func (t *transaction) readBack(ctx context.Context, out outcome) error {
	ps := make([]netip.Prefix, len(t.ops))
	for i, o := range t.ops {
		ps[i] = o.prefix
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTime)
	defer cancel()
	a, err := t.system.readActive(ctx, ps, t.options.leaves())
	if err != nil {
		return routers.Join(out.err("vbash"), err)
	}
	said := cmp.Or(out.reason, "vbash said nothing of that")
	var missing []error
	for _, o := range t.ops {
		if !o.made(a.nodes[o.prefix].by(o.path[3])) {
			missing = append(missing, &routers.PrefixError{Prefix: o.prefix, Err: routers.Errorf(out.class(), "%s: `%s` has not come into VyOS's configuration: %s", o.prefix, o.line(), said)})
		}
	}
	if len(missing) == 0 {
		return out.err("vbash")
	}
	return routers.Join(missing...)
}

// made tells whether the running configuration is what an op makes of it.
func (o op) made(n node) bool {
	switch {
	case o.whole():
		return !n.there
	case o.remove && len(o.path) == 5:
		return !n.blackhole
	case o.remove:
		return n.tag == 0
	case o.path[len(o.path)-2] == "tag":
		return strconv.FormatUint(uint64(n.tag), 10) == o.path[len(o.path)-1]
	case o.path[len(o.path)-2] == "distance":
		return strconv.Itoa(n.distance) == o.path[len(o.path)-1]
	}
	return n.blackhole
}
