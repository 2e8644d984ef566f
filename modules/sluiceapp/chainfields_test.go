package sluiceapp_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/httpfilters/pipeline"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
)

// TestChainFields checks that a chain may have every field that handlers know.
func TestChainFields(t *testing.T) {
	for format, of := range map[string]reflect.Type{
		`{"filter":{"filter":"x"},%q:null}`:                  reflect.TypeFor[pipeline.Entry](),
		`{"filter":{"filter":"x"},"conditions":[{%q:null}]}`: reflect.TypeFor[pipeline.Condition](),
	} {
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || name == "filter" {
				continue
			}
			config := `{"filter_chains":{"a":[` + fmt.Sprintf(format, name) + `]}}`
			if _, err := modules.Load(t, "sluice", config); err != nil {
				t.Errorf("%s: got %v", config, err)
			}
		}
	}
}
