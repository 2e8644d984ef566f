package main

import (
	"flag"
	"io"
	"testing"

	"github.com/caddy-sluice/sluice/bench/internal/load"
)

func TestParseTarget(t *testing.T) {
	want := load.Target{Name: "p", Addr: "127.0.0.1:7101", PID: 42, ServerName: "default.test"}
	if got, err := parseTarget("p=127.0.0.1:7101=42", "default.test"); got != want || err != nil {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	want.ServerName = "own.test"
	if got, err := parseTarget("p=127.0.0.1:7101=42=own.test", "default.test"); got != want || err != nil {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "p", "p=addr", "p=addr=x", "p=addr=-1", "p=addr=1=name=more"} {
		if got, err := parseTarget(bad, "default.test"); err == nil {
			t.Errorf("%q: got %+v, want an error", bad, got)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	for name, args := range map[string][]string{
		"no command": nil, "unknown command": {"x"}, "unknown flag": {"bench", "-x"},
		"no targets": {"bench"}, "bad target": {"idle", "x"}, "bad kind": {"bench", "-kind", "x", "p=127.0.0.1:1=0"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(t.Context(), args); err == nil {
				t.Error("got no error, want one")
			}
		})
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	targets, err := parse(flags, []string{"-sni", "b.test", "p=127.0.0.1:1=0", "q=127.0.0.1:2=0=c.test"})
	if err != nil || len(targets) != 2 || targets[0].ServerName != "b.test" || targets[1].ServerName != "c.test" {
		t.Errorf("got %+v, %v, want p with b.test and q with c.test", targets, err)
	}
}
