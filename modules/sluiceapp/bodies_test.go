package sluiceapp

import (
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/modules"
)

// TestChains checks what is refused of chains before any handler uses them.
func TestChains(t *testing.T) {
	const plain = `{"filter":{"filter":"nonesuch"}}`
	for _, tc := range []struct{ chains, err string }{
		{`{}`, ""},
		{`{"a-Z_9":[` + plain + `]}`, ""},
		{`{"` + strings.Repeat("n", 64) + `":[` + plain + `]}`, ""},
		{`{"a":[]}`, "filter_chains.a: there is no filter in it"},
		{`{"a":null}`, "filter_chains.a: there is no filter in it"},
		{`{"":[` + plain + `]}`, `filter_chains: name "" must have 1 to 64 letters, digits, _ and -`},
		{`{"a b":[` + plain + `]}`, `filter_chains: name "a b" must have`},
		{`{"a.b":[` + plain + `]}`, `filter_chains: name "a.b" must have`},
		{`{"` + strings.Repeat("n", 65) + `":[` + plain + `]}`, "must have 1 to 64 letters"},
		{`{"a":[` + plain + `,{"chain":"a"}]}`, "filter_chains.a[1]: chain: a chain can't have a chain in it"},
		{`{"a":[` + plain + `,{"filtr":{"filter":"json_field"}}]}`, `filter_chains.a[1]: json: unknown field "filtr"`},
		{`{"a":[{"name":"n"}]}`, "filter_chains.a[0]: filter: missing"},
		{`{"a":[{"filter":null}]}`, "filter_chains.a[0]: filter"},
		{`{"a":[{"filter":{}}]}`, "filter_chains.a[0]: filter.filter: missing"},
		{`{"a":[{"filter":"json_field"}]}`, "filter_chains.a[0]: filter: json: cannot unmarshal string"},
		{`{"a":[{"filter":{"filter":"nonesuch"},"conditions":[{"wen":[]}]}]}`, `filter_chains.a[0]: json: unknown field "wen"`},
		{`{"a":[{"filter":{"filter":"x"},"name":"n","conditions":[{"when":[{"path":["/"]}]},{"unless":[{"path":["/"]}]}],` +
			`"on_response":[{"status_code":[2]}],"failure_mode":"open","branches":[{"name":"b"}]}]}`, ""},
		{`{"a":[7]}`, "filter_chains.a[0]: json: cannot unmarshal number"},
	} {
		_, err := modules.Load(t, "sluice", `{"filter_chains":`+tc.chains+`}`)
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: got error %v, want one with %q", tc.chains, err, tc.err)
		}
	}
}
