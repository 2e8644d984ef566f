// Command run is the whole-proxy benchmark: it builds and starts Sluice's Caddy, a stock caddy-l4 and HAProxy on loopback,
// puts the same work on each in turn, and judges the CPU time and memory of their processes. See ../README.md.
//
//	go run ./bench/run [-only bulk,nobody,rate,filters,idle,splice] [-rounds 7] [-sluice FILE] [-stock FILE]
//
// It exits with status 1 if a bar is missed or something could not be measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// judgedRounds is the least number of rounds whose medians are worth a verdict on a busy machine.
const judgedRounds = 7

// scenario is one kind of measurement. run starts and stops the proxies that it needs.
type scenario struct {
	name string
	run  func(context.Context, *lab) ([]section, error)
}

var scenarios = []scenario{
	{"splice", splice}, {"bulk", bulk}, {"nobody", nobody}, {"rate", rate}, {"filters", filters}, {"idle", idle},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

var errMissed = errors.New("a bar was missed")

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	only := flags.String("only", "", "comma-separated scenarios; all if empty")
	rounds := flags.Int("rounds", judgedRounds, "rounds of each measurement")
	given := binaries{}
	flags.StringVar(&given.sluice, "sluice", "", "measure this binary instead of building ./xcaddy")
	flags.StringVar(&given.stock, "stock", "", "compare with this binary instead of building ./bench/stock")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if *rounds < 1 {
		return fmt.Errorf("-rounds %d, want at least 1", *rounds)
	}
	lab, err := newLab(ctx, given, *rounds)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.close()) }()
	return measure(ctx, lab, chosen)
}

// choose returns the scenarios named in a comma-separated list.
func choose(only string) ([]scenario, error) {
	if only == "" {
		return scenarios, nil
	}
	var chosen []scenario
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown scenario %q", name)
		}
		chosen = append(chosen, scenarios[i])
	}
	return chosen, nil
}

// measure runs the scenarios and prints each as it ends, and the verdicts last. A scenario that fails does not keep the
// others from running.
func measure(ctx context.Context, lab *lab, chosen []scenario) error {
	var errs []error
	var all []section
	for _, s := range chosen {
		lab.logf("scenario %s", s.name)
		sections, err := s.run(ctx, lab)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
			lab.logf("scenario %s failed: %v", s.name, err)
		}
		for _, section := range sections {
			section.print(os.Stdout)
		}
		all = append(all, sections...)
	}
	if lab.rounds < judgedRounds {
		fmt.Printf("Only %d rounds: the verdicts below are indicative, %d make them count.\n\n", lab.rounds, judgedRounds)
	}
	if !printBars(os.Stdout, all) {
		errs = append(errs, errMissed)
	}
	return errors.Join(errs...)
}
