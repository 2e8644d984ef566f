package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/caddy-sluice/sluice/bench/internal/load"
	"github.com/caddy-sluice/sluice/bench/internal/stats"
)

// section is one table of the report, with the bars that its figures are held to.
type section struct {
	title  string
	header []string
	rows   [][]string
	bars   []bar
}

// bar is a promise: got must not be more than limit. NaN, the ratio of something that was not measured, never passes.
type bar struct {
	what       string
	got, limit float64
}

func (b bar) met() bool {
	return b.got <= b.limit
}

func (s *section) print(out io.Writer) {
	fmt.Fprintf(out, "### %s\n\n", s.title)
	printRow(out, s.header)
	printRow(out, rule(len(s.header)))
	for _, row := range s.rows {
		printRow(out, row)
	}
	fmt.Fprintln(out)
}

// printBars prints the verdicts and reports whether all bars were met.
func printBars(out io.Writer, sections []section) bool {
	met := true
	fmt.Fprint(out, "### Bars\n\n")
	header := []string{"measurement", "bar", "got", "at most", "verdict"}
	printRow(out, header)
	printRow(out, rule(len(header)))
	for _, s := range sections {
		for _, b := range s.bars {
			verdict := "pass"
			if !b.met() {
				verdict, met = "**fail**", false
			}
			printRow(out, []string{s.title, b.what, fmt.Sprintf("%.3f", b.got), fmt.Sprintf("%.2f", b.limit), verdict})
		}
	}
	return met
}

func printRow(out io.Writer, cells []string) {
	fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
}

// rule is the line under a header: the first column to the left, the others, numbers, to the right.
func rule(columns int) []string {
	cells := []string{"---"}
	for range columns - 1 {
		cells = append(cells, "---:")
	}
	return cells
}

// cost says how a kind of work is shown: the factors from seconds per unit and units per second, and their headings.
type cost struct {
	cpu, rate         float64
	cpuName, rateName string
}

var (
	perGigabyte   = cost{1e9, 1e-6, "CPU s/GB", "MB/s"}
	perConnection = cost{1e6, 1, "CPU µs/conn", "conn/s"}
)

// newSection tabulates the samples of jobs.
func newSection(title string, c cost, jobs []load.Job, samples []load.Sample) section {
	s := section{title: title, header: []string{"proxy", c.cpuName, "min", "max", "user %", c.rateName, "failed"}}
	for i, sample := range samples {
		cpu := stats.Summarize(sample.CPU)
		s.rows = append(s.rows, []string{
			jobs[i].Target.Name, decimals(cpu.Median * c.cpu), decimals(cpu.Min * c.cpu), decimals(cpu.Max * c.cpu),
			fmt.Sprintf("%.0f", stats.Summarize(sample.UserShare).Median*100),
			fmt.Sprintf("%.0f", stats.Summarize(sample.Rate).Median*c.rate), fmt.Sprint(sample.Failed),
		})
	}
	return s
}

// decimals shows a cost with three significant digits or so.
func decimals(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// cpuBar holds the CPU cost of a to at most limit times that of b.
func cpuBar(what string, a, b load.Sample, limit float64) bar {
	return bar{what, stats.Ratio(a.CPU, b.CPU), limit}
}

// check returns an error if any work failed: figures of a proxy that refuses work say nothing.
func check(jobs []load.Job, samples []load.Sample) error {
	for i, sample := range samples {
		if sample.Failed > 0 {
			return fmt.Errorf("%s: %d failures, the first: %w", jobs[i].Target.Name, sample.Failed, sample.Err)
		}
	}
	return nil
}
