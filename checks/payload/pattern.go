package payload

import (
	"bytes"
	"context"
	"regexp"
	"regexp/syntax"

	"vouch/checks"
)

// quick is the work, in bytes times instructions, that is done without a look at the clock: a few hundredths of
// a second.
const quick = 1 << 22

// A Pattern is a regular expression (RE2) for what a server sends. It may be used concurrently.
type Pattern struct {
	re    *regexp.Regexp
	plain bool // it is a text, which is found at once
	size  int  // in instructions
}

// Compile reads an expression; its error is that of package regexp.
func Compile(expr string) (*Pattern, error) {
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	p := &Pattern{re: re, size: 1}
	_, p.plain = re.LiteralPrefix()
	if parsed, err := syntax.Parse(expr, syntax.Perl); err == nil { // as regexp does
		if prog, err := syntax.Compile(parsed.Simplify()); err == nil {
			p.size = len(prog.Inst)
		}
	}
	return p, nil
}

// String gives the expression.
func (p *Pattern) String() string { return p.re.String() }

// Match says whether b has a match. The time that takes grows with both, and for an expression that counts up to
// a thousand it can be minutes: it ends with ctx. The error is a *checks.Failure then.
func (p *Pattern) Match(ctx context.Context, b []byte) (bool, error) {
	if p.plain || p.size*len(b) <= quick {
		return p.re.Match(b), nil
	}
	runes := &until{ctx: ctx, Reader: bytes.NewReader(b)}
	found := p.re.MatchReader(runes)
	if runes.err != nil { // what it found is about a part, which it took for the whole
		return false, checks.NetFailure(ctx, "the regular expression takes too long on what came", runes.err)
	}
	return found, nil
}

// until gives runes until ctx ends.
type until struct {
	*bytes.Reader
	ctx context.Context
	err error
}

// ReadRune gives the next rune.
func (u *until) ReadRune() (r rune, size int, err error) {
	if u.err = u.ctx.Err(); u.err != nil {
		return 0, 0, u.err
	}
	return u.Reader.ReadRune()
}
