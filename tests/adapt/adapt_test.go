package adapt

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // sites, and the adapter for Caddyfiles
	_ "github.com/mholt/caddy-l4"                        // the app for the Caddyfile's layer4 block

	_ "github.com/caddy-sluice/sluice"
	_ "github.com/caddy-sluice/sluice/examples/custom-filter" // a filter for responses
)

// update writes what comes out into the files, for a reviewer to look at.
var update = flag.Bool("update", false, "write the results into the files")

// The kinds of files: by the Caddyfile syntax, and by JSON for mistakes that a Caddyfile can't make.
const (
	caddyfileTest = ".caddyfiletest"
	jsonTest      = ".jsontest"
)

// separator is a line of dashes: the config stands above it, below it the JSON or the error.
var separator = regexp.MustCompile(`(?m)^-{3,}\n`)

// TestAdapt runs each file. A config that adapts must also be valid; an error may come from either step.
func TestAdapt(t *testing.T) {
	t.Setenv("SLUICE_TEST_BACKEND", "backend.example.com:443")
	for _, kind := range []string{caddyfileTest, jsonTest} {
		paths, err := filepath.Glob("*" + kind)
		if err != nil || len(paths) == 0 {
			t.Fatalf("found no *%s: %v", kind, err)
		}
		for _, path := range paths {
			t.Run(strings.TrimSuffix(path, kind), func(t *testing.T) { testFile(t, path) })
		}
	}
}

func testFile(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parts := separator.Split(string(text), 2)
	if len(parts) != 2 {
		t.Fatal("there is no line of dashes")
	}
	got := result(t, filepath.Ext(path), parts[0])
	if *update {
		line := separator.FindString(string(text))
		if err := os.WriteFile(path, []byte(parts[0]+line+got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := strings.TrimSpace(parts[1]); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// result returns the JSON of a valid config, indented, or the error of another one.
func result(t *testing.T, kind, text string) string {
	t.Helper()
	config := []byte(text)
	if kind == caddyfileTest {
		var err error
		if config, err = adapt(t, text); err != nil {
			return "error: " + err.Error()
		}
	}
	if err := validate(t, config); err != nil {
		return "error: " + err.Error()
	}
	var out bytes.Buffer
	if err := json.Indent(&out, config, "", "\t"); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

// adapt turns a Caddyfile into JSON. A warning is an error of the test: the files must be formatted.
func adapt(t *testing.T, text string) ([]byte, error) {
	t.Helper()
	adapter := caddyconfig.GetAdapter("caddyfile")
	config, warnings, err := adapter.Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	for _, warning := range warnings {
		t.Errorf("adapting: %v", warning)
	}
	return config, err
}

// validate provisions a config, with storage of its own and without a log.
func validate(t *testing.T, config []byte) error {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal(config, &tree); err != nil {
		t.Fatal(err)
	}
	tree["storage"] = map[string]any{"module": "file_system", "root": t.TempDir()}
	tree["logging"] = map[string]any{"logs": map[string]any{"default": map[string]any{
		"writer": map[string]any{"output": "discard"},
	}}}
	raw, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	var cfg caddy.Config
	if err := json.Unmarshal(raw, &cfg); err != nil {
		t.Fatal(err)
	}
	return caddy.Validate(&cfg)
}
