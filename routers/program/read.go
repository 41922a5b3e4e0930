package program

import (
	"strings"

	"vouch/routers"
)

// judge makes an observation of what the read command left. Whatever it does not clearly say is unknown,
// beside an error.
func judge(e end) (routers.Observation, error) {
	o := routers.Observation{Prefix: e.prefix}
	unknown := func(why string) (routers.Observation, error) {
		o.Stage, o.Degraded, o.Detail = routers.Unknown, false, with(why, said(e.out))
		class := error(routers.ErrUnavailable)
		if e.err != nil {
			class = e.err
		}
		return o, routers.Errorf(class, "program: read %s: %s", e.prefix, o.Detail)
	}
	words := strings.Fields(string(e.out.Stdout))
	switch {
	case e.err != nil:
		return unknown(e.err.Error())
	case e.out.Signal != 0:
		return unknown(status(e.out))
	case len(words) == 0 && e.out.Code == 0:
		o.Stage = routers.Advertised
	case len(words) == 0 && e.out.Code == 1:
		o.Stage = routers.Absent
	case len(words) == 0:
		return unknown(status(e.out))
	case o.Stage.UnmarshalText([]byte(words[0])) != nil:
		return unknown("the first word is no stage")
	case o.Stage == routers.Unknown:
		return unknown("it says so itself")
	case len(words) > 1 && words[1] == "degraded":
		if o.Stage == routers.Absent {
			return unknown("absent and degraded at once")
		}
		o.Degraded = true
		o.Detail = clean(strings.Join(words[2:], " "))
	default:
		o.Detail = clean(strings.Join(words[1:], " "))
	}
	return o, nil
}
