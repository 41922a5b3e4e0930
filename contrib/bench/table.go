package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A row is one measured thing.
type row struct {
	Part   string  `json:"part"`
	What   string  `json:"what"`
	Unit   string  `json:"unit"`
	Runs   int     `json:"runs"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Times  float64 `json:"times,omitempty"` // its median, as a multiple of vouch's; 0: it is vouch's own
	Lacks  string  `json:"lacks,omitempty"` // what went wrong and is not in the figures
}

// A report is all rows of a part, in the order of printing.
type report struct {
	part string
	rows []row
}

// add notes what was measured of vouch. Of nothing it says that there is nothing.
func (r *report) add(what, unit string, s sample) row {
	w := row{Part: r.part, What: what, Unit: unit, Runs: len(s), Median: s.median()}
	if len(s) > 0 {
		w.Min, w.Max = slices.Min(s), slices.Max(s)
	}
	r.rows = append(r.rows, w)
	return w
}

// instead notes what was measured of that which would be used instead of what a row of vouch tells.
func (r *report) instead(of row, what string, s sample) {
	w := r.add("  instead: "+what, of.Unit, s)
	if of.Median > 0 {
		r.rows[len(r.rows)-1].Times = w.Median / of.Median
	}
}

// printTable prints rows for people.
func printTable(out io.Writer, rows []row) error {
	wide := 0
	for _, r := range rows {
		wide = max(wide, len(r.What))
	}
	var b strings.Builder
	part := ""
	for _, r := range rows {
		if r.Part != part {
			fmt.Fprintf(&b, "\n%-*s  %5s %9s %9s %9s  %-8s %8s\n", wide+2, r.Part, "runs", "median", "min", "max", "unit", "ratio")
			part = r.Part
		}
		median, least, most := number(r.Median), number(r.Min), number(r.Max)
		if r.Runs == 0 {
			median, least, most = "-", "-", "-"
		}
		line := fmt.Sprintf("  %-*s  %5d %9s %9s %9s  %-8s %8s", wide, r.What, r.Runs, median, least, most, r.Unit, ratio(r.Times))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
		if r.Lacks != "" {
			b.WriteString("    ! " + strings.ReplaceAll(r.Lacks, "\n", "\n      ") + "\n")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// number gives about three digits.
func number(v float64) string {
	switch {
	case v == float64(int64(v)):
		return fmt.Sprintf("%.0f", v)
	case v < 1:
		return fmt.Sprintf("%.3f", v)
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func ratio(times float64) string {
	if times == 0 {
		return ""
	}
	return number(times) + " x"
}

// A machine is what the figures depend on.
type machine struct {
	CPUs int    `json:"cpus"`
	Load string `json:"load"` // the load averages at the start
	FRR  string `json:"frr"`
	Go   string `json:"go"`
}

func (m machine) String() string {
	return fmt.Sprintf("%d CPUs, load %s, FRR %s, %s", m.CPUs, cmp.Or(m.Load, "unknown"), cmp.Or(m.FRR, "unknown"), m.Go)
}

// printAll prints everything, as one JSON object if asked to.
func printAll(out io.Writer, m machine, rows []row, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Machine machine `json:"machine"`
			Rows    []row   `json:"rows"`
		}{m, rows})
	}
	if err := printTable(out, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\nratio: the median of what would be used instead, as a multiple of vouch's above it\n", m)
	return err
}
