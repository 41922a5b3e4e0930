package program

import (
	"strings"
	"unicode"

	"vouch/routers"
)

// degraded is the word for the worse way in what a read command says.
const degraded = "degraded"

// judge makes an observation of what the read command left. Whatever it does not clearly say is unknown,
// beside an error.
func judge(e end) (routers.Observation, error) {
	o := routers.Observation{Prefix: e.prefix}
	why := ""
	switch text := strings.TrimSpace(string(e.out.Stdout)); {
	case e.err != nil:
		why = e.err.Error()
	case e.out.Signal != 0:
		why = status(e.out)
	case text == "" && e.out.Code == 0:
		o.Stage = routers.Advertised
	case text == "" && e.out.Code == 1:
		o.Stage = routers.Absent
	case text == "":
		why = status(e.out)
	default:
		o.Stage, o.Degraded, o.Detail, why = parse(text)
	}
	if why == "" {
		return o, nil
	}
	class := error(routers.ErrUnavailable)
	if e.err != nil {
		class = e.err
	}
	o = routers.Observation{Prefix: e.prefix, Detail: with(why, said(e.out))}
	return o, routers.Errorf(class, "program: read %s: %s", e.prefix, o.Detail)
}

// parse reads the words of Options.Read; why says what is wrong with them.
func parse(text string) (stage routers.Stage, worse bool, detail, why string) {
	first, rest := word(text)
	second, after := word(rest)
	switch {
	case first == degraded && isStage(second): // the other way round
		first, rest, worse = second, after, true
	case first == degraded:
		first, worse = routers.Advertised.String(), true
	case second == degraded:
		rest, worse = after, true
	}
	switch {
	case stage.UnmarshalText([]byte(first)) != nil:
		why = "the first word is no stage"
	case stage == routers.Unknown:
		why = "it says so itself"
	case stage == routers.Absent && worse:
		why = "absent and degraded at once"
	}
	return stage, worse, clean(rest), why
}

func isStage(word string) bool { return new(routers.Stage).UnmarshalText([]byte(word)) == nil }

// word cuts off the first word, in lower case.
func word(text string) (first, rest string) {
	between := func(r rune) bool { return r == ',' || unicode.IsSpace(r) }
	i := strings.IndexFunc(text, between)
	if i < 0 {
		return strings.ToLower(text), ""
	}
	return strings.ToLower(text[:i]), strings.TrimLeftFunc(text[i:], between)
}
