package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"text/tabwriter"
	"time"

	"github.com/caddy-sluice/sluice/bench/internal/load"
)

// backend serves until -life is over.
func backend(ctx context.Context, flags *flag.FlagSet, args []string) error {
	listen := flags.String("listen", "127.0.0.1:7001", "address")
	life := flags.Duration("life", 2*time.Hour, "exit after this time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *life)
	defer cancel()
	listener, err := (&net.ListenConfig{KeepAlive: -1}).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	return load.Serve(listener)
}

// idle prints what idle connections cost each target's process.
func idle(ctx context.Context, flags *flag.FlagSet, args []string) error {
	var o load.IdleOptions
	flags.IntVar(&o.Conns, "conns", 2000, "idle connections")
	flags.IntVar(&o.Warm, "warm", 50, "connections opened and closed first")
	flags.Int64Var(&o.Reply, "reply", 64, "bytes sent by the backend before idling")
	settle := flags.Duration("settle", 3*time.Second, "wait before reading the memory")
	targets, err := parse(flags, args)
	if err != nil {
		return err
	}
	o.Settle = func(ctx context.Context) error { return wait(ctx, *settle) }
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "target\tbase KiB\tRSS KiB/conn\tPSS KiB/conn\tdescriptors/conn\tslab KiB/conn\t")
	for _, target := range targets {
		r, err := load.MeasureIdle(ctx, target, o)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t\n",
			target.Name, r.Base.RSS>>10, r.RSS/1024, r.PSS/1024, r.Descriptors, r.Slab/1024)
	}
	return out.Flush()
}

// hold keeps idle connections open.
func hold(ctx context.Context, flags *flag.FlagSet, args []string) error {
	conns := flags.Int("conns", 200, "idle connections")
	duration := flags.Duration("for", time.Minute, "how long to hold them")
	reply := flags.Int64("reply", 64, "bytes sent by the backend before idling")
	targets, err := parse(flags, args)
	if err != nil {
		return err
	}
	for _, target := range targets {
		held, err := load.Hold(ctx, target, *conns, *reply)
		if err != nil {
			return err
		}
		defer held.Close()
	}
	fmt.Printf("holding %d connections for %v\n", *conns*len(targets), *duration)
	return wait(ctx, *duration)
}

// hello prints the length of a ClientHello, or writes it to a file.
func hello(_ context.Context, flags *flag.FlagSet, args []string) error {
	sni := flags.String("sni", "a.example.test", "server name")
	classic := flags.Bool("classic", false, "without post-quantum key share")
	file := flags.String("o", "", "write it to this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	message := load.ClientHello(*sni, load.HelloOptions{ALPN: load.DefaultALPN, Classic: *classic})
	fmt.Println(len(message), "bytes")
	if *file == "" {
		return nil
	}
	return os.WriteFile(*file, message, 0o644)
}

// wait returns after a time, or earlier with the context's error.
func wait(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(duration):
		return nil
	}
}
