package vty

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"vouch/routers"
)

func TestLoading(t *testing.T) {
	dir := t.TempDir()
	for _, daemon := range []string{"mgmtd", "zebra"} {
		if err := os.WriteFile(Path(dir, daemon), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		dir, daemon string
		age         time.Duration
		want        string
	}{
		{dir, "mgmtd", 600 * time.Millisecond, "mgmtd.vty: mgmtd has just been started, and may lose what it is loading when it is asked now: it is asked in 14s"},
		{dir, "mgmtd", 9600 * time.Millisecond, "asked in 5s"},
		{dir, "mgmtd", loading, ""},
		{dir, "mgmtd", -time.Hour, ""}, // the clock was set back
		{dir, "zebra", 0, ""},
		{dir + "/none", "mgmtd", 0, ""},
	} {
		then := time.Now().Add(-c.age)
		if err := os.Chtimes(Path(dir, c.daemon), then, then); err != nil {
			t.Fatal(err)
		}
		switch err := Loading(c.dir, c.daemon); {
		case c.want == "" && err != nil:
			t.Errorf("%s, %s old: %v", c.daemon, c.age, err)
		case c.want != "" && (!errors.Is(err, routers.ErrUnavailable) || !strings.HasSuffix(err.Error(), c.want)):
			t.Errorf("%s, %s old: %v, want %s", c.daemon, c.age, err, c.want)
		}
	}
	then := time.Now()
	if err := os.Chtimes(Path(dir, "mgmtd"), then, then); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), dir, "mgmtd"); err == nil || !strings.Contains(err.Error(), "just been started") {
		t.Errorf("dial: %v", err)
	}
}
