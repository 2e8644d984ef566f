package sluiceapp

import (
	"math"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/caddy-sluice/sluice/modules/cluster"
)

// TestOption checks what blocks of the global option become.
func TestOption(t *testing.T) {
	for _, tc := range []struct{ name, want, err string }{
		{"sluice", `{}`, ""},
		{"sluice {\nguard off\npreread_memory 1MiB\nshutdown_grace 0\n}", `{"shutdown_grace":0,"preread_memory":1048576,"guard":"off"}`, ""},
		{"sluice {\nadmission\n}", `{"admission":{}}`, ""},
		{
			"sluice {\nadmission {\nmax_connections 5\nmax_requests 7\nmemory_limit 2GiB\nopen_files_reserve 0\nfailure_mode open\n}\n}",
			`{"admission":{"max_connections":5,"max_requests":7,"memory_limit":"2GiB","open_files_reserve":"0","failure_mode":"open"}}`, "",
		},
		{"sluice on", "", `sluice takes no argument, got "on"`},
		{"sluice {\nguard off\nguard off\n}", "", "guard is given twice"},
		{"sluice {\nguard some\n}", "", `guard: "some" is not known; must be one of dns, strict, off`},
		{"sluice {\nguard\n}", "", "guard needs an argument"},
		{"sluice {\nshutdown_grace soon\n}", "", `shutdown_grace: "soon" is not a duration, such as 30s, at Testfile:2`},
		{"sluice {\nshutdown_grace 30\n}", "", `shutdown_grace: "30" is not a duration, such as 30s, at Testfile:2`},
		{"sluice {\nshutdown_grace\n}", "", "shutdown_grace needs an argument"},
		{"sluice {\npreread_memory 0\n}", "", "preread_memory: "},
		{"sluice {\nlimit 5\n}", "", `unrecognized option "limit": expected admission, shutdown_grace, preread_memory, body_memory, guard or cluster`},
		{"sluice {\nadmission 5\n}", "", `admission takes no argument, got "5"`},
		{"sluice {\nadmission {\nmax_connections 0\n}\n}", "", `max_connections: "0" is not a positive number`},
		{"sluice {\nadmission {\nlimit 5\n}\n}", "", `unrecognized option "limit": expected max_connections`},
		{"sluice {\nadmission {\nmax_connections 5\nmax_connections 6\n}\n}", "", "max_connections is given twice"},
		{"sluice {\ncluster web {\nslow_start 30s {\naggression NaN\n}\n}\n}", "", `aggression: "NaN" is not a number, at Testfile:4`},
		{"sluice {\ncluster web {\nslow_start 30s {\naggression -Inf\n}\n}\n}", "", `aggression: "-Inf" is not a number, at Testfile:4`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseOption(caddyfile.NewTestDispenser(tc.name), nil)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got error %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil || string(got.(httpcaddyfile.App).Value) != tc.want || got.(httpcaddyfile.App).Name != "sluice" {
				t.Errorf("got %v, %v, want %s", got, err, tc.want)
			}
		})
	}
}

// TestSecondBlock checks that a second block adds to the first, and is refused where it says something again.
func TestSecondBlock(t *testing.T) {
	const first = "sluice {\nguard strict\nshutdown_grace 0\nadmission {\nmax_connections 5\nmemory_limit 1GiB\n}\ncluster a {\nendpoints b:1\n}\n}"
	for _, tc := range []struct{ second, want, err string }{
		{"sluice {\npreread_memory 1MiB\nadmission {\nmax_requests 6\n}\n}", `{"max_connections":5,"max_requests":6,"memory_limit":"1GiB"}`, ""},
		{"sluice {\ncluster c {\nendpoints d:1\n}\n}", `"c":{`, ""},
		{"sluice {\nguard off\n}", "", "guard is given twice, in two blocks sluice, at Testfile:2"},
		{"sluice {\nshutdown_grace 0\n}", "", "shutdown_grace is given twice, in two blocks sluice, at Testfile:2"},
		{"sluice {\nadmission {\nmax_requests 6\nmax_connections 5000\n}\n}", "", "max_connections is given twice, in two blocks sluice, at Testfile:4"},
		{"sluice {\ncluster a {\nendpoints d:1\n}\n}", "", "cluster a is given twice"},
	} {
		app, err := parseOption(caddyfile.NewTestDispenser(first), nil)
		if err != nil {
			t.Fatal(err)
		}
		app, err = parseOption(caddyfile.NewTestDispenser(tc.second), app)
		switch {
		case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
			t.Errorf("%q: got error %v, want one with %q", tc.second, err, tc.err)
		case tc.err == "" && (err != nil || !strings.Contains(string(app.(httpcaddyfile.App).Value), tc.want)):
			t.Errorf("%q: got %v, %v, want %s in it", tc.second, app, err, tc.want)
		}
	}
}

// TestSecondBlockGuard checks that a block can't take away the guard that one before asks for, also if it is the default.
func TestSecondBlockGuard(t *testing.T) {
	app, err := parseOption(caddyfile.NewTestDispenser("sluice {\nguard dns\n}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if app, err = parseOption(caddyfile.NewTestDispenser("sluice {\nbody_memory 1MiB\n}"), app); err != nil {
		t.Fatal(err)
	}
	if got, err := parseOption(caddyfile.NewTestDispenser("sluice {\nguard off\n}"), app); err == nil || !strings.Contains(err.Error(), "guard is given twice") {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestOptionWritten checks that an app which can't be written down is an error, and not no app.
func TestOptionWritten(t *testing.T) {
	d := caddyfile.NewTestDispenser("sluice")
	d.Next()
	aggression := math.NaN()
	app := App{Clusters: map[string]*cluster.Config{"web": {SlowStart: &cluster.SlowStart{Aggression: &aggression}}}}
	if got, err := app.option(d, nil); err == nil || !strings.Contains(err.Error(), "Testfile:1") {
		t.Errorf("got %v, %v, want an error with the line", got, err)
	}
}
