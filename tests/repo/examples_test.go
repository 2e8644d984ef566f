package repo

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // sites, and the adapter for Caddyfiles
	_ "github.com/mholt/caddy-l4"                        // the handlers that stand beside ours in examples

	_ "github.com/caddy-sluice/sluice/examples/custom-filter" // the filter of its Caddyfile
)

// examples returns the paths of all example configs.
func examples(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "examples", "*", "Caddyfile"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("found no example: %v", err)
	}
	return paths
}

// adapt turns a Caddyfile into JSON. A warning of the adapter, such as one about the formatting, is an error here.
func adapt(t *testing.T, path, text string) []byte {
	t.Helper()
	adapter := caddyconfig.GetAdapter("caddyfile")
	result, warnings, err := adapter.Adapt([]byte(text), map[string]any{"filename": path})
	if err != nil {
		t.Fatalf("adapting: %v", err)
	}
	for _, warning := range warnings {
		t.Errorf("adapting: %v", warning)
	}
	return result
}

// load adapts a Caddyfile and returns it as a tree that can be changed.
func load(t *testing.T, path, text string) map[string]any {
	t.Helper()
	var config map[string]any
	if err := json.Unmarshal(adapt(t, path, text), &config); err != nil {
		t.Fatal(err)
	}
	return config
}

// validate provisions a config, with storage of its own, and reports warnings in the log as errors of t.
func validate(t *testing.T, config map[string]any) error {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	config["storage"] = map[string]any{"module": "file_system", "root": dir}
	config["logging"] = map[string]any{"logs": map[string]any{"default": map[string]any{
		"level": "WARN", "writer": map[string]any{"output": "file", "filename": log},
	}}}
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	var cfg caddy.Config
	if err := json.Unmarshal(raw, &cfg); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(&cfg); err != nil {
		return err
	}
	if lines, err := os.ReadFile(log); err == nil && len(lines) > 0 {
		t.Errorf("got warnings:\n%s", lines)
	}
	return nil
}

// TestExamples checks that each example is a valid config, says in its first line what it is for, is formatted as
// `caddy fmt` does it, and is in the list.
func TestExamples(t *testing.T) {
	list := read(t, "examples", "README.md")
	for _, path := range examples(t) {
		name := filepath.Base(filepath.Dir(path))
		t.Run(name, func(t *testing.T) {
			text := readFile(t, path)
			if !strings.HasPrefix(text, "# ") {
				t.Error("the first line must say in a comment what the example is for")
			}
			if !strings.Contains(list, "]("+name+"/Caddyfile)") {
				t.Error("examples/README.md does not list it")
			}
			if err := validate(t, load(t, path, text)); err != nil {
				t.Errorf("validating: %v", err)
			}
		})
	}
}

// TestCaddyfilesInDocs checks that each Caddyfile in the docs is a valid config as it stands there.
func TestCaddyfilesInDocs(t *testing.T) {
	block := regexp.MustCompile("(?ms)^```caddyfile\n(.*?)^```$")
	found := 0
	for _, path := range files(t, ".md") {
		for i, text := range block.FindAllStringSubmatch(readFile(t, path), -1) {
			found++
			t.Run(fmt.Sprintf("%s_%d", filepath.Base(path), i), func(t *testing.T) {
				if err := validate(t, load(t, path, text[1])); err != nil {
					t.Errorf("validating: %v", err)
				}
			})
		}
	}
	if found == 0 {
		t.Error("found no Caddyfile in the docs")
	}
}
