package config

import (
	"slices"
	"testing"
)

func TestNearest(t *testing.T) {
	words := []string{"web/http", "resolver/tcp", "resolver/dns", "web/tcp"}
	for got, want := range map[string][]string{
		"resolver/dsn": {"resolver/dns", "resolver/tcp", "web/tcp", "web/http"},
		"web/tpc":      {"web/tcp", "web/http", "resolver/tcp", "resolver/dns"},
		"":             {"web/tcp", "web/http", "resolver/dns", "resolver/tcp"},
	} {
		if ws := Nearest(got, words); !slices.Equal(ws, want) {
			t.Errorf("nearest to %q: %q, want %q", got, ws, want)
		}
	}
	if words[0] != "web/http" {
		t.Error("the caller's words were put into another order")
	}
}
