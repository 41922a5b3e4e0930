package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// A length is the value of a flag that holds a duration. Unlike time.Duration it takes days and
// weeks, which is how span writes what is long.
type length time.Duration

// lengthVar defines a flag for p, whose present value is the default.
func lengthVar(cmd *cobra.Command, p *time.Duration, name, usage string) {
	cmd.Flags().Var((*length)(p), name, usage)
}

// String is empty for 0, which a help text then does not call a default.
func (l *length) String() string {
	if *l == 0 {
		return ""
	}
	return time.Duration(*l).String()
}

// Type is the word that stands for the value in a help text.
func (l *length) Type() string { return "duration" }

// Set takes what parseLength takes.
func (l *length) Set(s string) error {
	d, ok := parseLength(s)
	if !ok {
		return errors.New("must be a duration such as 30m, 12h, 1d12h or 1w")
	}
	*l = length(d)
	return nil
}

// lengthForm has so few digits that weeks and days alone cannot overflow.
var lengthForm = regexp.MustCompile(`^([-+]?)(?:(\d{1,4})w)?(?:(\d{1,4})d)?([\d.].*)?$`)

// parseLength reads what time.ParseDuration does, with weeks and days before it: 1w, 1d12h, 2d.
func parseLength(s string) (time.Duration, bool) {
	m := lengthForm.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	var d time.Duration
	if m[4] != "" || m[2]+m[3] == "" {
		rest, err := time.ParseDuration(m[4])
		if err != nil {
			return 0, false
		}
		d = rest
	}
	weeks, _ := strconv.Atoi(m[2]) // digits, or nothing
	days, _ := strconv.Atoi(m[3])
	if d += time.Duration(7*weeks+days) * 24 * time.Hour; d < 0 {
		return 0, false // more than 292 years
	}
	if m[1] == "-" {
		d = -d
	}
	return d, true
}

// badValue is how cobra tells of a flag's value that could not be read.
var badValue = regexp.MustCompile(`^invalid argument (".*") for "(?:-\w, )?(--[\w-]+)" flag: (.*)$`)

// flagError puts cobra's texts about flags into plain words.
func flagError(_ *cobra.Command, err error) error {
	m := badValue.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	need := m[3]
	switch {
	case strings.HasPrefix(need, "strconv.ParseInt:"):
		need = "must be a whole number"
	case strings.HasPrefix(need, "strconv.ParseBool:"):
		need = "must be true or false"
	}
	return fmt.Errorf("%s %s (got %s)", m[2], need, m[1])
}
