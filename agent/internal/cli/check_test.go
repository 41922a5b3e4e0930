package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"vouch/agent/internal/config"
	"vouch/checks"
)

func twoServices() *config.Config {
	return &config.Config{File: "x.toml", Services: []config.Service{
		{Name: "resolver", Checks: []config.Check{{Name: "dns"}, {Name: "tcp"}}},
		{Name: "web", Checks: []config.Check{{Name: "http"}}},
	}}
}

func TestChosen(t *testing.T) {
	for _, c := range []struct {
		services, only []string
		want           []CheckName
		err            string
	}{
		{nil, nil, nil, ""},
		{[]string{"web"}, nil, nil, ""},
		{nil, []string{"web/http", "resolver/dns", "web/http"}, []CheckName{{"web", "http"}, {"resolver", "dns"}}, ""},
		{[]string{"wep"}, nil, nil, `there is no service "wep" in x.toml; there are: web, resolver`},
		{nil, []string{"resolver/tpc"}, nil, `service resolver has no check "tpc" in x.toml; there are: resolver/tcp, resolver/dns`},
		{nil, []string{"web/http", "wbe/http"}, nil, `there is no check "wbe/http" in x.toml; there are: web/http, `},
		{nil, []string{"resolver"}, nil, `--only takes SERVICE/CHECK (got "resolver", a service): say which of its checks, or "vouch check resolver"; there are: resolver/dns, resolver/tcp`},
		{nil, []string{"resolver/"}, nil, `service resolver has no check "" in x.toml`},
		{nil, []string{"resolver/dns/x"}, nil, `service resolver has no check "dns/x" in x.toml; there are: resolver/dns, resolver/tcp`},
		{[]string{"web"}, []string{"web/http"}, nil, "say either services, or checks with --only SERVICE/CHECK"},
	} {
		got, err := chosen(twoServices(), c.services, c.only)
		if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%v, only %v: %v, %v; want %v, %s", c.services, c.only, got, err, c.want, c.err)
		}
	}
}

// Of many names those that may have been meant are told.
func TestList(t *testing.T) {
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("web/http%02d", i))
	}
	got := list("web/htp17", names)
	if !strings.HasPrefix(got, "web/http17, ") || !strings.HasSuffix(got, " and 12 more") || strings.Count(got, ",") != 7 {
		t.Errorf("got %s", got)
	}
}

func TestAwaited(t *testing.T) {
	for _, c := range []struct {
		o    CheckOptions
		want string
	}{
		{CheckOptions{}, "[resolver/dns resolver/tcp web/http the router]"},
		{CheckOptions{Services: []string{"web"}}, "[web/http the router]"},
		{CheckOptions{Only: []CheckName{{"resolver", "tcp"}}}, "[resolver/tcp]"},
	} {
		if got := fmt.Sprint(awaited(twoServices(), c.o)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.o, got, c.want)
		}
	}
}

func TestTraceJSON(t *testing.T) {
	for _, c := range []struct {
		trace []TraceLine
		want  string
	}{
		{[]TraceLine{{time.Millisecond, checks.Sent, "a"}, {2 * time.Millisecond, checks.Got, "b\nc"}, {3 * time.Millisecond, checks.Note, "d"}},
			`"trace":[{"at_ns":1000000,"text":"a","direction":"sent"},{"at_ns":2000000,"text":"b\nc","direction":"got"},{"at_ns":3000000,"text":"d","direction":"note"}]`},
		{[]TraceLine{}, `"trace":[]`},
		{nil, ""},
	} {
		b, err := json.Marshal(CheckedCheck{Trace: c.trace})
		if got := string(b); err != nil || !strings.Contains(got, c.want) || strings.Contains(got, "trace") != (c.want != "") {
			t.Errorf("%s, %v; want %s", got, err, c.want)
		}
	}
}
