package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/internal/bodypipe"
	"github.com/caddy-sluice/sluice/internal/testkit/modules"
)

// list returns a list of n entries, each made of format with its number.
func list(n int, format string) string {
	entries := make([]string, n)
	for i := range entries {
		entries[i] = fmt.Sprintf(format, i)
	}
	return "[" + strings.Join(entries, ",") + "]"
}

// nested returns a list of one filter with branches in one another.
func nested(depth int) string {
	config := `[{"filter":{"filter":"test_filter","label":"deepest"}}]`
	for range depth {
		config = branching(`"routes":[{"handle":[{"handler":"filters","filters":` + config + `}]}]`)
	}
	return config
}

// branching returns a list of two filters, of which the second has a branch with these settings.
func branching(settings string) string {
	return `[{"name":"first","filter":{"filter":"test_filter","label":"first"}},
		{"name":"host","filter":{"filter":"test_filter","label":"host","times":"status"},"branches":[{"name":"b",` + settings + `}]},
		{"name":"last","filter":{"filter":"test_filter","label":"last"}}]`
}

// declaring returns a list of one filter that says which results it sets, and has a branch on this one.
func declaring(on string) string {
	return `[{"name":"host","filter":{"filter":"test_filter","declared":{"status":["found","missing"],"n":[]}},
		"branches":[{"name":"b","on_result":` + on + `,"rejoin":"end"}]}]`
}

// bodyInside are the routes of a branch with a filter for bodies.
const bodyInside = `{"handler":"filters","filters":[{"filter":{"filter":"test_body"}}]}`

func TestRefused(t *testing.T) {
	const (
		plain  = `{"filter":{"filter":"test_filter"}}`
		answer = `"routes":[{"handle":[{"handler":"static_response"}]}]`
	)
	with := func(fields string) string { return `[{"filter":{"filter":"test_filter"},` + fields + `}]` }
	for _, tc := range []struct{ name, config, want string }{
		{"unknown field", `{"bodies":1}`, `unknown field "bodies"`},
		{"request_body_limit negative", `{"request_body_limit":-1}`, "request_body_limit: -1 is out of range, 1 to 67108864 (64MiB)"},
		{"request_body_limit large", `{"request_body_limit":67108865}`, "request_body_limit: 67108865 is out of range"},
		{"response_body_limit negative", `{"response_body_limit":-1}`, "response_body_limit: -1 is out of range"},
		{"response_body_limit large", `{"response_body_limit":67108865}`, "response_body_limit: 67108865 is out of range"},
		{"body_timeout short", `{"body_timeout":"9ms"}`, "body_timeout: 9ms is out of range, 10ms to 1h0m0s"},
		{"body_timeout long", `{"body_timeout":"3601s"}`, "body_timeout: 1h0m1s is out of range"},
		{"body_timeout negative", `{"body_timeout":-1}`, "body_timeout: -1ns is out of range"},

		{"filter missing", `[{}]`, "filters[0]: filter: missing"},
		{"filter null", `[{"filter":null}]`, "filters[0]: filter: missing"},
		{"filter without name", `[{"filter":{}}]`, `filters[0]: filter.filter: missing; it is the name of the filter, one of test_body, test_counter, test_filter, `},
		{"filter unknown", `[` + plain + `,{"filter":{"filter":"nonesuch"}}]`, `filters[1]: filter.filter: there is no filter "nonesuch"; must be one of test_body, test_counter, test_filter, `},
		{"filter with an unknown field", `[{"filter":{"filter":"test_filter","colour":"red"}}]`, `filters[0]: filter: loading module 'test_filter': decoding module config: http.filters.test_filter: json: unknown field "colour"`},
		{"filter without hooks", `[{"filter":{"filter":"test_nothing"}}]`, "filters[0]: filter: test_nothing has no hook"},
		{"entry with an unknown field", with(`"when":[{}]`), `unknown field "when"`},
		{"too many filters", list(64, `{"filter":{"filter":"test_filter","label":"%d"}}`), "filters: 64 filters, at most 63"},

		{"name with a dot", with(`"name":"a.b"`), `filters[0]: name: "a.b" must have 1 to 64 letters`},
		{"name with a colon", with(`"name":"chain:a"`), `filters[0]: name: "chain:a"`},
		{"name with an umlaut", with(`"name":"ä"`), `filters[0]: name: "ä"`},
		{"name long", with(`"name":"` + strings.Repeat("n", 65) + `"`), "filters[0]: name: "},
		{"name that is a rejoin", with(`"name":"end"`), `filters[0]: name: "end" means something else`},
		{"name twice", `[{"name":"a","filter":{"filter":"test_filter"}},` + plain + `,{"name":"a","filter":{"filter":"test_filter"}}]`, `filters[2]: name: "a" is the name of filters[0] too`},
		{"name of a module", `[` + plain + `,{"name":"test_filter","filter":{"filter":"test_guard"}}]`, `filters[1]: name: "test_filter" is the name of filters[0] too`},

		{"H153 when and unless", with(`"conditions":[{"when":[{"path":["/a"]}]},{"when":[{"path":["/a"]}],"unless":[{"path":["/b"]}]}]`), "filters[0]: conditions[1]: must have either when or unless"},
		{"H153 neither", with(`"conditions":[{}]`), "filters[0]: conditions[0]: must have either when or unless"},
		{"condition with an unknown field", with(`"conditions":[{"if":[{}]}]`), `unknown field "if"`},
		{"when empty", with(`"conditions":[{"when":[]}]`), "filters[0]: conditions[0]: when: a matcher is missing"},
		{"unless with an empty set", with(`"conditions":[{"unless":[{"path":["/a"]},{}]}]`), "filters[0]: conditions[0]: unless: a matcher is missing"},
		{"when unknown", with(`"conditions":[{"when":[{"nonesuch":1}]}]`), "filters[0]: conditions[0]: when: module name 'nonesuch': unknown module: http.matchers.nonesuch"},
		{"unless malformed", with(`"conditions":[{"unless":[{"path":1}]}]`), "filters[0]: conditions[0]: unless: "},

		{"on_response class 6", with(`"on_response":[{"status_code":[2]},{"status_code":[6]}]`), "filters[0]: on_response[1]: status_code: 6 is out of range"},
		{"on_response informational", with(`"on_response":[{"status_code":[199]}]`), "filters[0]: on_response[0]: status_code: 199"},
		{"on_response 600", with(`"on_response":[{"status_code":[600]}]`), "filters[0]: on_response[0]: status_code: 600"},

		{"on_response of a filter for requests", `[` + plain + `,{"filter":{"filter":"test_upstream"},"on_response":[{"status_code":[2]}]}]`, "filters[1]: on_response: has no meaning, test_upstream doesn't look at responses"},

		{"more held than a request may have", `{"request_body_limit":100,"filters":[` + plain + `,{"filter":{"filter":"test_body","most":101}}]}`, "filters[1]: filter: it wants up to 101 bytes held back; request_body_limit must be as much, and is 100"},
		{"more held than a response may have", `{"response_body_limit":100,"filters":[{"filter":{"filter":"test_body","most":101}}]}`, "filters[0]: filter: it wants up to 101 bytes held back; response_body_limit must be as much, and is 100"},
		{"more held than the default", `[{"filter":{"filter":"test_body","most":10485761}}]`, "request_body_limit must be as much, and is 10485760"},

		{"failure_mode unknown", with(`"failure_mode":"ajar"`), `filters[0]: failure_mode: "ajar" is not known; must be closed or open`},
		{"failure_mode open of a guard", `[{"filter":{"filter":"test_guard"},"failure_mode":"open"}]`, `filters[0]: failure_mode: "open" is not for filters that protect something`},

		{"chain unknown", `[{"chain":"nonesuch"}]`, `filters[0]: chain: there is no chain "nonesuch" in filter_chains`},
		{"chain with a filter", `[{"chain":"c","filter":{"filter":"test_filter"}}]`, "filters[0]: chain: it stands alone"},
		{"chain with a name", `[{"chain":"c","name":"n"}]`, "filters[0]: chain: it stands alone"},
		{"chain with conditions", `[{"chain":"c","conditions":[]}]`, "filters[0]: chain: it stands alone"},
		{"chain with on_response", `[{"chain":"c","on_response":[]}]`, "filters[0]: chain: it stands alone"},
		{"chain with failure_mode", `[{"chain":"c","failure_mode":"closed"}]`, "filters[0]: chain: it stands alone"},
		{"chain with branches", `[{"chain":"c","branches":[]}]`, "filters[0]: chain: it stands alone"},

		{"H147 too many branches", with(`"branches":` + list(17, `{"name":"b%d",`+answer+`}`)), "filters[0]: branches: 17 branches, at most 16"},
		{"H147 branches too deep", nested(11), "filters[1]: branches: they are nested 11 deep, at most 10"},
		{"branch without a name", with(`"branches":[{` + answer + `}]`), `filters[0]: branches[0]: name: "" must have 1 to 64 letters`},
		{"H147 branch name twice", `[{"filter":{"filter":"test_filter"},"branches":[{"name":"b",` + answer + `}]},{"filter":{"filter":"test_guard"},"branches":[{"name":"b",` + answer + `}]}]`, `filters[1]: branches[0]: name: "b" is the name of another branch`},
		{"H147 branch with a filter's name", with(`"name":"a","branches":[{"name":"a",` + answer + `}]`), `filters[0]: branches[0]: name: "a" is the name of a filter`},
		{"branch with an unknown field", with(`"branches":[{"name":"b","chains":[]}]`), `unknown field "chains"`},
		{"branch without routes", branching(`"on_result":{"result":"1"}`), "filters[1]: branches[0]: routes: missing; only a branch that rejoins at end or at a filter"},
		{"terminal branch without routes", branching(`"rejoin":"terminal"`), "filters[1]: branches[0]: routes: missing"},
		{"branch with a malformed route", branching(`"routes":[{"handle":[{"handler":"nonesuch"}]}]`), "filters[1]: branches[0]: routes: "},
		{"on_result without result", branching(`"on_result":{"key":"k"},` + answer), "filters[1]: branches[0]: on_result: result: missing"},
		{"on_result key", branching(`"on_result":{"key":"a.b","result":"r"},` + answer), `filters[1]: branches[0]: on_result: key "a.b"`},
		{"on_result result", branching(`"on_result":{"result":"` + strings.Repeat("r", 257) + `"},` + answer), "filters[1]: branches[0]: on_result: result status: 257 bytes, at most 256"},
		{"on_result never set", declaring(`{"result":"mising"}`), "filters[0]: branches[0]: on_result: host never sets status to \"mising\"; must be one of found, missing"},
		{"on_result placeholder", declaring(`{"result":"{env.RESULT}"}`), "on_result: host never sets status to \"{env.RESULT}\""},
		{"on_result key never set", declaring(`{"key":"stats","result":"found"}`), "filters[0]: branches[0]: on_result: host never sets a result \"stats\"; must be one of n, status"},
		{"match empty", branching(`"match":[],` + answer), "filters[1]: branches[0]: match: a matcher is missing"},
		{"match unknown", branching(`"match":[{"nonesuch":1}],` + answer), "filters[1]: branches[0]: match: module name 'nonesuch'"},

		{"H147 rejoin of a chain", branching(`"rejoin":"chain:last"`), `filters[1]: branches[0]: rejoin: there is no filter "chain:last"; must be next, end, terminal or the name of one`},
		{"H147 rejoin unknown", branching(`"rejoin":"nonesuch"`), `filters[1]: branches[0]: rejoin: there is no filter "nonesuch"`},
		{"rejoin of a module with another name", branching(`"rejoin":"test_filter"`), `filters[1]: branches[0]: rejoin: there is no filter "test_filter"`},
		{"H146 backward without max_iterations", branching(`"rejoin":"first"`), `filters[1]: branches[0]: max_iterations: 0 is out of range, 1 to 100; going back to "first" needs it`},
		{"H146 self without max_iterations", branching(`"rejoin":"host"`), "filters[1]: branches[0]: max_iterations: 0 is out of range"},
		{"H146 backward 0", branching(`"rejoin":"first","max_iterations":0`), "filters[1]: branches[0]: max_iterations: 0 is out of range"},
		{"H146 backward 101", branching(`"rejoin":"first","max_iterations":101`), "filters[1]: branches[0]: max_iterations: 101 is out of range"},
		{"H146 self -1", branching(`"rejoin":"host","max_iterations":-1`), "filters[1]: branches[0]: max_iterations: -1 is out of range"},
		{"forward with max_iterations", branching(`"rejoin":"last","max_iterations":1`), "filters[1]: branches[0]: max_iterations: has no meaning"},
		{"next with max_iterations", branching(`"max_iterations":1,` + answer), "filters[1]: branches[0]: max_iterations: has no meaning"},

		{"H151 body filter in a branch", branching(`"routes":[{"handle":[` + bodyInside + `]}]`), "filters[1]: branches[0]: routes: "},
		{"H151 upstream body filter in a branch", branching(`"routes":[{"handle":[` + strings.ReplaceAll(bodyInside, "test_body", "test_upstream") + `]}]`), "must not look at bodies"},
		{"H151 in a subroute", branching(`"routes":[{"handle":[{"handler":"subroute","routes":[{"handle":[` + bodyInside + `]}]}]}]`), "must not look at bodies"},
		{"H151 in the errors of a subroute", branching(`"routes":[{"handle":[{"handler":"subroute","routes":[],"errors":{"routes":[{"handle":[` + bodyInside + `]}]}}]}]`), "must not look at bodies"},
		{"H151 in an intercept", branching(`"routes":[{"handle":[{"handler":"intercept","handle_response":[{"routes":[{"handle":[` + bodyInside + `]}]}]}]}]`), "must not look at bodies"},
		{"H151 in a proxy", branching(`"routes":[{"handle":[{"handler":"reverse_proxy","upstreams":[{"dial":"127.0.0.1:1"}],"handle_response":[{"routes":[{"handle":[` + bodyInside + `]}]}]}]}]`), "must not look at bodies"},
		{"H151 in a branch of a branch", branching(`"routes":[{"handle":[{"handler":"filters","filters":` + branching(`"routes":[{"handle":[`+bodyInside+`]}]`) + `}]}]`), "must not look at bodies"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := modules.Load(t, "http.handlers.filters", handlerConfig(tc.config))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestAccepted(t *testing.T) {
	for name, config := range map[string]string{
		"nothing":                `{}`,
		"smallest":               `{"request_body_limit":1,"response_body_limit":1,"body_timeout":"10ms"}`,
		"largest":                `{"request_body_limit":67108864,"response_body_limit":67108864,"body_timeout":"1h"}`,
		"as much held as may be": `{"request_body_limit":100,"response_body_limit":100,"filters":[{"filter":{"filter":"test_body","most":100}}]}`,
		"on_response of none":    `[{"filter":{"filter":"test_upstream"},"on_response":[]}]`,
		"most filters":           list(63, `{"filter":{"filter":"test_filter","label":"%d"}}`),
		"longest name":           `[{"name":"` + strings.Repeat("n", 64) + `","filter":{"filter":"test_filter"}}]`,
		"name":                   `[{"name":"aZ09_-","filter":{"filter":"test_filter"}}]`,
		"same module twice":      `[{"filter":{"filter":"test_filter"}},{"filter":{"filter":"test_filter"}}]`,
		"guard that is closed":   `[{"filter":{"filter":"test_guard"},"failure_mode":"closed"}]`,
		"most branches":          `[{"filter":{"filter":"test_filter"},"branches":` + list(16, `{"name":"b%d","rejoin":"end"}`) + `}]`,
		"H146 least":             branching(`"rejoin":"first","max_iterations":1`),
		"H146 most":              branching(`"rejoin":"host","max_iterations":100`),
		"declared result":        declaring(`{"result":"missing"}`),
		"any value of a key":     declaring(`{"key":"n","result":"17"}`),
		"nothing declared":       branching(`"on_result":{"key":"any","result":"any"},"rejoin":"end"`),
		"deepest":                nested(10),
		"branches side by side": `[{"filter":{"filter":"test_filter"},"branches":[{"name":"a","routes":[{"handle":[{"handler":"filters","filters":` + nested(9) + `}]}]},` +
			`{"name":"b","routes":[{"handle":[{"handler":"filters","filters":` + nested(9) + `}]}]}]}]`,
		"idle body filter in a branch": branching(`"routes":[{"handle":[{"handler":"filters","filters":[{"filter":{"filter":"test_body","idle":true}}]}]}]`),
		"body filter after a branch":   `[{"filter":{"filter":"test_filter"},"branches":[{"name":"b","rejoin":"end"}]},{"filter":{"filter":"test_body"}}]`,
		"classes and codes":            `[{"filter":{"filter":"test_filter"},"on_response":[{"status_code":[1,5,200,599]}]}]`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := modules.Load(t, "http.handlers.filters", handlerConfig(config)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	h := newFlow(t, `{}`).handler
	if h.RequestBodyLimit != bodypipe.DefaultCeiling || h.ResponseBodyLimit != bodypipe.DefaultCeiling || time.Duration(h.BodyTimeout) != 30*time.Second {
		t.Errorf("got %+v", h)
	}
}

// inChains returns a context with these chains.
func inChains(t testing.TB, chains string) caddy.Context {
	t.Helper()
	return modules.ContextOf(t, caddy.ModuleMap{"sluice": []byte(`{"filter_chains":` + chains + `}`)})
}

func TestChains(t *testing.T) {
	ctx := inChains(t, `{
		"common": [
			{"name":"a","filter":{"filter":"test_filter","label":"a","times":"n"}},
			{"filter":{"filter":"test_filter","label":"b"},"conditions":[{"when":[{"path":["/b"]}]}]}
		]
	}`)
	const config = `[{"filter":{"filter":"test_filter","label":"before"}},{"chain":"common"},
		{"filter":{"filter":"test_filter","label":"after"},"branches":[{"name":"back","match":[{"path":["/again"]}],"rejoin":"a","max_iterations":1}]}]`
	one, two := newFlowIn(t, ctx, config), newFlowIn(t, ctx, `[{"chain":"common"}]`)
	one.expect(one.get("/"), 200, "before request", "a request", "after request",
		"after response", "a response", "before response", "after log", "a log", "before log")
	one.expect(one.get("/again"), 200, "before request", "a request", "after request", "a request", "after request",
		"after response", "a response", "before response", "after log", "a log", "before log")
	two.expect(two.get("/b"), 200, "a request", "b request", "b response", "a response", "b log", "a log")
	if one.handler.entries[1].request == two.handler.entries[0].request {
		t.Error("got one filter for two handlers, want a copy for each")
	}
}

// TestChainsRefused checks what is wrong with chains, and that it is said where it is.
func TestChainsRefused(t *testing.T) {
	const plain = `{"filter":{"filter":"test_filter"}}`
	for _, tc := range []struct{ name, chain, filters, want string }{
		{"unknown field", `[` + plain + `,{"nonesuch":1}]`, `[` + plain + `,{"chain":"c"}]`, `filter_chains.c[1]: json: unknown field "nonesuch"`},
		{"filter", `[` + plain + `,{"filter":{"filter":"nonesuch"}}]`, `[{"chain":"c"}]`, "filters[0]: filter_chains.c[1]: filter.filter: there is no filter"},
		{"after a chain", `[` + plain + `,` + plain + `]`, `[{"chain":"c"},{"filter":{"filter":"nonesuch"}}]`, "filters[1]: filter.filter: there is no filter"},
		{"name in both", `[` + plain + `,{"name":"a","filter":{"filter":"test_filter"}}]`, `[{"chain":"c"},{"name":"a","filter":{"filter":"test_filter"}}]`, `filters[1]: name: "a" is the name of filters[0]: filter_chains.c[1] too`},
		{"branch", `[{"filter":{"filter":"test_filter"},"branches":[{"name":"b"}]}]`, `[` + plain + `,{"chain":"c"}]`, "filters[1]: filter_chains.c[0]: branches[0]: routes: missing"},
		{"chain twice with a name", `[{"name":"a","filter":{"filter":"test_filter"}}]`, `[{"chain":"c"},{"chain":"c"}]`, `filters[1]: filter_chains.c[0]: name: "a" is the name of filters[0]: filter_chains.c[0] too`},
		{"on_response", `[` + plain + `,{"filter":{"filter":"test_upstream"},"on_response":[{"status_code":[2]}]}]`, `[{"chain":"c"}]`, "filters[0]: filter_chains.c[1]: on_response: has no meaning"},
		{"more held than there may be", `[{"filter":{"filter":"test_body","most":10485761}}]`, `[` + plain + `,{"chain":"c"}]`, "filters[1]: filter_chains.c[0]: filter: it wants up to 10485761 bytes held back"},
		{"too many", list(62, `{"filter":{"filter":"test_filter","label":"%d"}}`), `[` + plain + `,` + plain + `,{"chain":"c"}]`, "filters: 64 filters, at most 63"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := inChains(t, `{"c":`+tc.chain+`}`).LoadModuleByID("http.handlers.filters", []byte(handlerConfig(tc.filters)))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestNamedCopies checks that the headers that filters of a chain set are owned by each handler.
func TestNamedCopies(t *testing.T) {
	ctx := inChains(t, `{"c":[{"filter":{"filter":"test_filter","headers":{"x-B":"1","X-a":"2"}}},{"filter":{"filter":"test_filter","headers":{"x-a":"3"}}}]}`)
	for range 2 {
		h := newFlowIn(t, ctx, `[{"chain":"c"}]`).handler
		if want := []string{"X-A", "X-B"}; !slices.Equal(h.owned, want) {
			t.Errorf("got %q owned, want %q", h.owned, want)
		}
	}
}
