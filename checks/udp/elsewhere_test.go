package udp

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"vouch/checks"
	"vouch/checks/checktest"
)

// A reply from another port is none, and whoever looks on is told that it would not be seen here.
func TestElsewhere(t *testing.T) {
	at := checktest.UDP(t, "127.0.0.1", func(d checktest.Datagram) { d.ReplyFrom(t, []byte("PONG")) })
	c, err := (&Spec{Address: at.String(), Send: "PING"}).New()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var seen strings.Builder
	err = c.Check(checks.WithTrace(ctx, func(d checks.Direction, text string) { fmt.Fprintf(&seen, "%c %s\n", d, text) }))
	if got := (checks.Result{Start: time.Now(), Err: err}).Reason(); got != checks.ReasonTimeout {
		t.Errorf("got %v", err)
	}
	if want := fmt.Sprintf("* what comes from another address or port than %s is not heard here: tcpdump shows it\n", at); !strings.HasSuffix(seen.String(), want) {
		t.Errorf("got\n%s\nwant it to end with\n%s", &seen, want)
	}
}
