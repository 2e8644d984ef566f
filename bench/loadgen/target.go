package main

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/caddy-sluice/sluice/bench/internal/load"
)

// parse reads flags and then targets. -sni, the server name of targets without one of their own, is among the flags.
func parse(flags *flag.FlagSet, args []string) ([]load.Target, error) {
	sni := flags.String("sni", "a.example.test", "server name of targets without their own")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() == 0 {
		return nil, errors.New("no targets; " + usage)
	}
	targets := make([]load.Target, flags.NArg())
	for i, arg := range flags.Args() {
		target, err := parseTarget(arg, *sni)
		if err != nil {
			return nil, err
		}
		targets[i] = target
	}
	return targets, nil
}

func parseTarget(arg, sni string) (load.Target, error) {
	fields := strings.Split(arg, "=")
	if len(fields) != 3 && len(fields) != 4 {
		return load.Target{}, fmt.Errorf("target %q, want NAME=ADDR=PID or NAME=ADDR=PID=SERVERNAME", arg)
	}
	pid, err := strconv.Atoi(fields[2])
	if err != nil || pid < 0 {
		return load.Target{}, fmt.Errorf("target %q: process id %q, want a number", arg, fields[2])
	}
	if len(fields) == 4 {
		sni = fields[3]
	}
	return load.Target{Name: fields[0], Addr: fields[1], PID: pid, ServerName: sni}, nil
}
