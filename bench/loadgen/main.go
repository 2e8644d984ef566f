// Command loadgen is the load generator, backend and CPU meter of the benchmark, for use by hand.
//
//	loadgen backend -listen 127.0.0.1:7001
//	loadgen bench   -kind rate -conc 16 -count 4000 -rounds 7 TARGET...
//	loadgen bench   -kind down|up -conc 8 -bytes 800000000 -rounds 7 TARGET...
//	loadgen bench   -kind pp -conc 32 -count 40000 -msg 512 TARGET...
//	loadgen idle    -conns 2000 TARGET...
//	loadgen hold    -conns 200 -for 1m TARGET...
//	loadgen hello   -sni a.example.test -o FILE
//
// A TARGET is NAME=HOST:PORT=PID, or NAME=HOST:PORT=PID=SERVERNAME; PID 0 means that CPU time is not measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = "usage: loadgen backend|bench|idle|hold|hello [flags] [NAME=ADDR=PID[=SERVERNAME]...]"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "loadgen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	commands := map[string]func(context.Context, *flag.FlagSet, []string) error{
		"backend": backend, "bench": bench, "idle": idle, "hold": hold, "hello": hello,
	}
	if len(args) == 0 {
		return errors.New(usage)
	}
	command, ok := commands[args[0]]
	if !ok {
		return fmt.Errorf("unknown command %q; %s", args[0], usage)
	}
	return command(ctx, flag.NewFlagSet(args[0], flag.ContinueOnError), args[1:])
}
