package pipeline

import (
	"testing"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-sluice/sluice/internal/testkit/modules"
)

// TestWarnsOfMemory checks that a handler says so, once, if the memory of all bodies may not do for one.
func TestWarnsOfMemory(t *testing.T) {
	const reads = `"filters":[{"filter":{"filter":"test_body","hold":true}}]`
	for _, tc := range []struct {
		name, config string
		warns        int
	}{
		{"no filter for bodies", `{"request_body_limit":67108864,"filters":[{"filter":{"filter":"test_filter"}}]}`, 0},
		{"half of it", `{"request_body_limit":1048576,"response_body_limit":1,` + reads + `}`, 0},
		{"request", `{"request_body_limit":1048577,"response_body_limit":1,` + reads + `}`, 1},
		{"response", `{"request_body_limit":1,"response_body_limit":1048577,` + reads + `}`, 1},
		{"upstream body", `{"request_body_limit":1048577,"filters":[{"filter":{"filter":"test_upstream"}}]}`, 1},
		{"no upstream body", `{"request_body_limit":1048577,"response_body_limit":1,"filters":[{"filter":{"filter":"test_filter"}}]}`, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx := modules.ContextOf(t, caddy.ModuleMap{"sluice": []byte(`{"body_memory":2097152}`)})
			h := new(Handler)
			core, logs := observer.New(zap.WarnLevel)
			if err := caddy.StrictUnmarshalJSON([]byte(tc.config), h); err != nil {
				t.Fatal(err)
			}
			if err := h.Provision(ctx); err != nil {
				t.Fatal(err)
			}
			h.logger = zap.New(core)
			h.warnOfMemory()
			if logs.Len() != tc.warns {
				t.Errorf("got %v, want %d warnings", logs.All(), tc.warns)
			}
		})
	}
}
