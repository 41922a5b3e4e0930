package ctl

import (
	"errors"
	"io"
	"strings"
	"testing"

	"vouch/routers"

	"github.com/google/go-cmp/cmp"
)

func parse(text string) (Reply, error) { return newReader(strings.NewReader(text), " ").reply() }

func TestReply(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []Line
	}{
		"one line":       {"0016 Access restricted\n", []Line{{16, "Access restricted"}}},
		"no text":        {"0000 \n", []Line{{0, ""}}},
		"more follows":   {"0009-a: disabled\n0000 \n", []Line{{9, "a: disabled"}, {0, ""}}},
		"goes on":        {"1007-Table master4:\n 10.0.0.0/8 x\n \tvia\n0000 \n", []Line{{1007, "Table master4:"}, {1007, "10.0.0.0/8 x"}, {1007, "\tvia"}, {0, ""}}},
		"blank goes on":  {"1006-a\n \n0000 \n", []Line{{1006, "a"}, {1006, ""}, {0, ""}}},
		"unasked":        {"+log line\n1000-a\n+another\n0013 up\n", []Line{{1000, "a"}, {13, "up"}}},
		"carriage":       {"0000 a\r\n", []Line{{0, "a"}}},
		"a refusal":      {"0002-Reading configuration from f\n8002 f:1:2 wrong\n", []Line{{2, "Reading configuration from f"}, {8002, "f:1:2 wrong"}}},
		"of more it has": {"0001 BIRD\n0002 next\n", []Line{{1, "BIRD"}}},
	} {
		r, err := parse(test.text)
		if err != nil || !cmp.Equal(r.Lines, test.want) {
			t.Errorf("%s: %v, error %v", name, r.Lines, err)
		}
	}
}

func TestReplyFailures(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want error
		says string
	}{
		"nothing":           {"", io.EOF, "EOF"},
		"cut in a line":     {"0000", io.ErrUnexpectedEOF, ""},
		"cut between lines": {"0009-a\n", io.ErrUnexpectedEOF, ""},
		"goes on with none": {" a\n", errGarbage, `" a"`},
		"no code":           {"bird> x\n", errGarbage, `"bird> x"`},
		"an empty line":     {"0009-a\n\n0000 \n", errGarbage, ""},
		"code of letters":   {"00x0 a\n", errGarbage, ""},
		"no space":          {"0000\n", errGarbage, ""},
		"other sign":        {"0000*a\n", errGarbage, ""},
		"long line":         {"0000 " + strings.Repeat("x", maxLine) + "\n", nil, "a line longer than 64 KiB"},
		"endless":           {strings.Repeat("1007-"+strings.Repeat("x", 60000)+"\n", 300), nil, "a reply longer than 16 MiB"},
	} {
		_, err := parse(test.text)
		if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestReplyHas(t *testing.T) {
	r := Reply{[]Line{{ReadingConfig, "f"}, {UndoScheduled, "x"}, {Reconfigured, "y"}}}
	if !r.Has(ConfigurationFailed, UndoScheduled) || r.Has(ConfigurationFailed) || r.Code() != Reconfigured || !cmp.Equal(r.Texts(UndoScheduled), []string{"x"}) {
		t.Error("has, code or texts")
	}
}

func TestRefused(t *testing.T) {
	if err := (Reply{[]Line{{2, "x"}, {3, "Reconfigured"}}}).Refused("configure"); err != nil {
		t.Errorf("what is no refusal: %v", err)
	}
	err := Reply{[]Line{{2, "Reading"}, {8002, "f:1:2 syntax error"}}}.Refused("configure")
	var refusal *Refusal
	if !errors.As(err, &refusal) || !errors.Is(err, routers.ErrRefused) || refusal.Code != ConfigurationFailed || refusal.Text != "f:1:2 syntax error" ||
		err.Error() != `"configure": 8002 f:1:2 syntax error` {
		t.Errorf("error %v", err)
	}
	if err := (Reply{[]Line{{8006, "a: reload failed"}, {0, ""}}}).Refused("reload"); !errors.As(err, &refusal) || refusal.Code != 8006 {
		t.Errorf("a refusal that is not the last line: %v", err)
	}
}

func TestCheck(t *testing.T) {
	for _, good := range []string{"show status", "show route 10.0.0.0/8 exported 'core-4'", `configure check "/etc/bird/ä b.conf"`, strings.Repeat("x", 4095)} {
		if err := Check(good); err != nil {
			t.Errorf("refused: %v", err)
		}
	}
	for bad, why := range map[string]string{
		"":                        "it is empty",
		" ":                       "it is empty",
		"show status\ndown":       "a control character",
		"show status\rdown":       "a control character",
		"show\x00":                "a control character",
		"show\x7f":                "a control character",
		"show status; down":       `a ";"`,
		"show status # x":         `a ";" or "#"`,
		strings.Repeat("x", 4096): "longer than 4095 bytes",
	} {
		if err := Check(bad); !errors.Is(err, routers.ErrRefused) || !strings.Contains(err.Error(), why) || len(err.Error()) > 200 {
			t.Errorf("%.40q: error %v", bad, err)
		}
	}
}

func TestVersion(t *testing.T) {
	for text, want := range map[string]Version{
		"BIRD 1.6.8 ready.":            {1, 6, 8},
		"BIRD 2.0.12 ready.":           {2, 0, 12},
		"BIRD 3.1.8 ready.":            {3, 1, 8},
		"BIRD 2.13 ready.":             {2, 13, 0},
		"BIRD v2.15.1-4-gabcdef ready": {2, 15, 1},
		"BIRD 3.0-alpha2 ready.":       {3, 0, 0},
	} {
		if v, err := parseBanner(text); err != nil || v != want {
			t.Errorf("%s: %v, error %v", text, v, err)
		}
	}
	for _, text := range []string{"", "BIRD", "FRR 8.4.4", "BIRD ready."} {
		if v, err := parseBanner(text); err == nil {
			t.Errorf("%q: %v", text, v)
		}
	}
	v := Version{2, 13, 1}
	if !v.AtLeast(2, 13, 1) || !v.AtLeast(1, 20, 30) || v.AtLeast(2, 13, 2) || v.AtLeast(2, 14, 0) || v.AtLeast(3, 0, 0) || v.String() != "2.13.1" {
		t.Error("at least, or string")
	}
}
