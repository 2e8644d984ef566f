package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caddy-sluice/sluice/bench/internal/load"
	"github.com/caddy-sluice/sluice/bench/internal/stats"
)

// bench runs one kind of work on all targets, interleaved, and prints a table.
func bench(ctx context.Context, flags *flag.FlagSet, args []string) error {
	var o load.Options
	flags.StringVar((*string)(&o.Kind), "kind", "rate", "rate, down, up or pp")
	flags.IntVar(&o.Conns, "conc", 16, "connections at a time")
	flags.Int64Var(&o.Count, "count", 2000, "connections (rate) or messages (pp) per run")
	flags.Int64Var(&o.Bytes, "bytes", 1e9, "bytes per run, over all connections (down, up)")
	flags.Int64Var(&o.Reply, "tiny", 64, "reply size in rate")
	flags.IntVar(&o.Message, "msg", 512, "message size in pp")
	flags.DurationVar(&o.Limit, "limit", 30*time.Second, "longest run")
	flags.BoolVar(&o.Hello.Classic, "classic", false, "a hello of 300 bytes, without post-quantum key share")
	alpn := flags.String("alpn", strings.Join(load.DefaultALPN, ","), "protocols offered")
	rounds := flags.Int("rounds", 7, "rounds; the targets are interleaved within each")
	targets, err := parse(flags, args)
	if err != nil {
		return err
	}
	if *alpn != "" {
		o.Hello.ALPN = strings.Split(*alpn, ",")
	}
	jobs := make([]load.Job, len(targets))
	for i, target := range targets {
		jobs[i] = load.Job{Target: target, Options: o}
	}
	samples, err := load.Interleave(ctx, jobs, *rounds)
	if err != nil {
		return err
	}
	return printSamples(jobs, samples)
}

// printSamples prints CPU time per gigabyte for bulk work, and per connection or message for the rest.
func printSamples(jobs []load.Job, samples []load.Sample) error {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	bulk := jobs[0].Options.Kind == load.Down || jobs[0].Options.Kind == load.Up
	cpuUnit, rateUnit, header := 1e6, 1.0, "target\tcpu us/op\tmin\tmax\tuser %\top/s\tp50 us\tp99 us\tfailed\t"
	if bulk {
		cpuUnit, rateUnit, header = 1e9, 1e-6, "target\tcpu s/GB\tmin\tmax\tuser %\tMB/s\tp50 us\tp99 us\tfailed\t"
	}
	fmt.Fprintln(out, header)
	for i, s := range samples {
		cpu, middle := stats.Summarize(s.CPU), func(v []float64) float64 { return stats.Summarize(v).Median }
		fmt.Fprintf(out, "%s\t%.3f\t%.3f\t%.3f\t%.0f\t%.0f\t%.0f\t%.0f\t%d\t\n", jobs[i].Target.Name,
			cpu.Median*cpuUnit, cpu.Min*cpuUnit, cpu.Max*cpuUnit, middle(s.UserShare)*100, middle(s.Rate)*rateUnit,
			middle(s.P50)*1e6, middle(s.P99)*1e6, s.Failed)
		if s.Err != nil {
			fmt.Fprintf(os.Stderr, "%s: %d failed, first: %v\n", jobs[i].Target.Name, s.Failed, s.Err)
		}
	}
	return out.Flush()
}
