package dns

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"vouch/checks"
)

// An Accept is the set of rcodes that count as an answer. The zero Accept accepts any.
type Accept struct {
	rcodes []string // empty: any
	any    bool     // "any" was written
	wrong  string   // what was written instead, as Go prints it
}

// UnmarshalTOML takes whatever was written, so that Validate can report it beside all else.
func (a *Accept) UnmarshalTOML(v any) error {
	*a = Accept{}
	switch v := v.(type) {
	case string:
		if a.any = v == "any"; !a.any {
			a.wrong = strconv.Quote(v)
		}
	case []any:
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				a.wrong = fmt.Sprint(v)
				return nil
			}
			if s = strings.ToUpper(s); !slices.Contains(a.rcodes, s) {
				a.rcodes = append(a.rcodes, s)
			}
		}
		if len(v) == 0 {
			a.wrong = "[]"
		}
	default:
		a.wrong = fmt.Sprint(v)
	}
	return nil
}

// MarshalTOML writes what UnmarshalTOML reads.
func (a Accept) MarshalTOML() ([]byte, error) { return []byte(a.String()), nil }

// String gives the value as it is written in TOML.
func (a Accept) String() string {
	if !a.byList() {
		return `"any"`
	}
	return listed(a.rcodes)
}

// listed gives a list of strings as it is written in TOML.
func listed(list []string) string {
	quoted := make([]string, len(list))
	for i, r := range list {
		quoted[i] = strconv.Quote(r)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// written says whether anything stands in the configuration.
func (a Accept) written() bool { return a.any || a.byList() || a.wrong != "" }

// byList says whether there is a list, as against any.
func (a Accept) byList() bool { return len(a.rcodes) > 0 }

// records says whether each answer that is accepted is of the rcode with which there may be records.
func (a Accept) records() bool { return len(a.rcodes) == 1 && a.rcodes[0] == "NOERROR" }

// accepts says whether an answer with this rcode is ok.
func (a Accept) accepts(rcode int) bool {
	return !a.byList() || slices.Contains(a.rcodes, rcodeName(rcode))
}

func rcodeName(rcode int) string {
	if n, ok := dns.RcodeToString[rcode]; ok {
		return n
	}
	return "RCODE" + strconv.Itoa(rcode)
}

func (a Accept) validate() (ps []checks.Problem) {
	if a.wrong != "" {
		return []checks.Problem{{Key: "accept", What: "must be \"any\" or a list of rcodes", Got: a.wrong,
			WayOut: `write accept = "any", or accept = ["NOERROR", "NXDOMAIN"]`}}
	}
	for _, r := range a.rcodes {
		if _, ok := dns.StringToRcode[r]; !ok {
			ps = append(ps, checks.Problem{Key: "accept", What: "is not the name of an rcode", Got: r,
				WayOut: "write names such as NOERROR, NXDOMAIN, SERVFAIL or REFUSED"})
		}
	}
	return ps
}
