package balancers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-sluice/sluice/internal/balance"
)

// load returns a balancer as a config has it.
func load(t *testing.T, policy, config string) (Balancer, error) {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	loaded, err := ctx.LoadModuleByID(Namespace+"."+policy, json.RawMessage(config))
	if err != nil {
		return nil, err
	}
	return loaded.(Balancer), nil
}

// endpoints returns a list of n endpoints of weight 1.
func endpoints(n int) []Endpoint {
	list := make([]Endpoint, n)
	for i := range list {
		list[i] = Endpoint{Key: fmt.Sprintf("10.0.0.%d:80", i+1), Weight: 1, Live: new(Live)}
	}
	return list
}

// TestModules checks that each policy is a module, with its traits, and that its picker obeys the contract.
func TestModules(t *testing.T) {
	for _, tc := range []struct {
		policy, config string
		traits         Traits
	}{
		{"p2c", `{}`, Traits{Ramps: true}},
		{"round_robin", `{}`, Traits{Ramps: true}},
		{"least_connections", `{}`, Traits{Ramps: true}},
		{"random", `{}`, Traits{Ramps: true}},
		{"first", `{}`, Traits{}},
		{"maglev", `{"key":"client_ip"}`, Traits{Key: Key{ClientIP, ""}}},
		{"maglev", `{"key":"header x-user","table_size":4099,"balance_factor":125}`, Traits{Key: Key{Header, "X-User"}}},
		{"ring_hash", `{"key":"sni"}`, Traits{Key: Key{SNI, ""}}},
		{"ring_hash", `{"key":"{tenant}","ring_points":40,"balance_factor":100}`, Traits{Key: Key{Placeholder, "{tenant}"}}},
	} {
		t.Run(tc.policy+tc.config, func(t *testing.T) {
			b, err := load(t, tc.policy, tc.config)
			if err != nil {
				t.Fatal(err)
			}
			if got := b.Traits(); got != tc.traits {
				t.Errorf("got traits %+v, want %+v", got, tc.traits)
			}
			list := endpoints(3)
			list[0].Live.Bar(balance.Down)
			picker, err := b.Prepare(list, nil)
			if err != nil {
				t.Fatal(err)
			}
			place, ok := picker.Pick(Query{Seed: 7, Key: balance.HashKey("a"), HasKey: true})
			if !ok || place == 0 || list[place].Live.Load() != 1 {
				t.Errorf("got endpoint %d, %v with load %d, want one that is available, with load 1", place, ok, list[place].Live.Load())
			}
		})
	}
}

// TestPolicies checks that each module has the policy of its name: two picks tell them apart.
func TestPolicies(t *testing.T) {
	for _, policy := range []string{"p2c", "round_robin", "least_connections", "random", "maglev", "ring_hash", "first"} {
		config := `{}`
		if policy == "maglev" || policy == "ring_hash" {
			config = `{"key":"client_ip"}`
		}
		b, err := load(t, policy, config)
		if err != nil {
			t.Fatal(err)
		}
		want, err := balance.ParsePolicy(policy)
		if err != nil {
			t.Fatal(err)
		}
		if got, model := picks(t, b), modelPicks(t, want); !slices.Equal(got, model) {
			t.Errorf("%s: got endpoints %v, want %v", policy, got, model)
		}
	}
}

// picks returns the choices of a balancer among 5 endpoints.
func picks(t *testing.T, b Balancer) []int {
	t.Helper()
	picker, err := b.Prepare(endpoints(5), nil)
	if err != nil {
		t.Fatal(err)
	}
	return choices(picker)
}

// modelPicks returns those of the policy itself.
func modelPicks(t *testing.T, policy balance.Policy) []int {
	t.Helper()
	set, err := balance.New(balance.Config{Policy: policy}, endpoints(5), nil)
	if err != nil {
		t.Fatal(err)
	}
	return choices(set)
}

func choices(picker Picker) (places []int) {
	for i := range uint64(20) {
		place, _ := picker.Pick(Query{Seed: i * 0x9e3779b97f4a7c15, Key: balance.HashKey(fmt.Sprint(i)), HasKey: true})
		places = append(places, place)
	}
	return places
}

// TestPrepareGoesOn checks that a changed list doesn't begin a round anew, and that a picker of another kind is no
// obstacle.
func TestPrepareGoesOn(t *testing.T) {
	b, err := load(t, "round_robin", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	list := endpoints(4)
	picker, err := b.Prepare(list, foreign{})
	if err != nil {
		t.Fatal(err)
	}
	var places []int
	for range 4 {
		place, _ := picker.Pick(Query{})
		places = append(places, place)
		if picker, err = b.Prepare(list, picker); err != nil {
			t.Fatal(err)
		}
	}
	if slices.Sort(places); !slices.Equal(places, []int{0, 1, 2, 3}) {
		t.Errorf("got endpoints %v in one round, want each once", places)
	}
}

// foreign is a picker from elsewhere.
type foreign struct{}

func (foreign) Pick(Query) (int, bool) { return 0, false }

// TestPrepareRefuses checks that an error comes without a picker.
func TestPrepareRefuses(t *testing.T) {
	b, err := load(t, "maglev", `{"key":"client_ip","table_size":2}`)
	if err != nil {
		t.Fatal(err)
	}
	if picker, err := b.Prepare(endpoints(3), nil); picker != nil || err == nil || !strings.Contains(err.Error(), "table_size") {
		t.Errorf("got %v, %v, want an error about table_size alone", picker, err)
	}
}

// TestRefused checks that what is wrong with options is refused by their names, in JSON.
func TestRefused(t *testing.T) {
	for _, tc := range []struct{ policy, config, want string }{
		{"p2c", `{"key":"client_ip"}`, "key"},
		{"round_robin", `{"table_size":65537}`, "table_size"},
		{"least_connections", `{"balance_factor":125}`, "balance_factor"},
		{"random", `{"ring_points":160}`, "ring_points"},
		{"first", `{"key":"uri"}`, "key"},
		{"maglev", `{}`, "key: is required"},
		{"maglev", `{"key":"user"}`, `key: "user": must be client_ip`},
		{"maglev", `{"key":"client_ip","ring_points":160}`, "ring_points"},
		{"maglev", `{"key":"client_ip","table_size":65536}`, "table_size 65536: invalid option: want a prime, such as 65537"},
		{"maglev", `{"key":"client_ip","table_size":1}`, "table_size 1: invalid option: want 2 to 5000011"},
		{"maglev", `{"key":"client_ip","table_size":-3}`, "table_size -3: invalid option"},
		{"maglev", `{"key":"client_ip","table_size":5000077}`, "table_size 5000077: invalid option: want 2 to 5000011"},
		{"maglev", `{"key":"client_ip","balance_factor":99}`, "balance_factor 99: invalid option: want 100 to 10000"},
		{"maglev", `{"key":"client_ip","balance_factor":10001}`, "balance_factor 10001: invalid option"},
		{"ring_hash", `{}`, "key: is required"},
		{"ring_hash", `{"key":"client_ip","table_size":65537}`, "table_size"},
		{"ring_hash", `{"key":"client_ip","ring_points":16385}`, "ring_points 16385: invalid option: want 1 to 16384"},
		{"ring_hash", `{"key":"client_ip","ring_points":-1}`, "ring_points -1: invalid option"},
		{"ring_hash", `{"key":"client_ip","balance_factor":50}`, "balance_factor 50: invalid option"},
	} {
		if _, err := load(t, tc.policy, tc.config); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %s: got error %v, want one with %q", tc.policy, tc.config, err, tc.want)
		}
	}
}

// TestCaddyfile checks what each policy becomes in JSON, that this loads, and what mistakes get.
func TestCaddyfile(t *testing.T) {
	for _, tc := range []struct{ text, want, err string }{
		{"p2c", `{}`, ""},
		{"round_robin", `{}`, ""},
		{"least_connections", `{}`, ""},
		{"random", `{}`, ""},
		{"first", `{}`, ""},
		{"maglev client_ip", `{"key":"client_ip"}`, ""},
		{"maglev header X-User {\ntable_size 4099\nbalance_factor 125%\n}", `{"key":"header X-User","table_size":4099,"balance_factor":125}`, ""},
		{"ring_hash cookie sid {\nring_points 40\nbalance_factor 150%\n}", `{"key":"cookie sid","ring_points":40,"balance_factor":150}`, ""},
		{"ring_hash {l4.sluice.sni}", `{"key":"{l4.sluice.sni}"}`, ""},

		{"p2c client_ip", "", `p2c takes no argument, got "client_ip", at Testfile:1`},
		{"first {\nkey uri\n}", "", "first takes no block, at Testfile:2"},
		{"maglev", "", "maglev needs a key, such as client_ip, at Testfile:1"},
		{"maglev user", "", `maglev: key: "user": must be client_ip`},
		{"ring_hash header", "", `ring_hash: key: "header": header needs a name, at Testfile:1`},
		{"maglev uri {\ntable_size 65536\n}", "", "table_size 65536: invalid option: want a prime, such as 65537, at Testfile:2"},
		{"maglev uri {\ntable_size 0\n}", "", `table_size: "0" is out of range, 2 to 5000011, at Testfile:2`},
		{"maglev uri {\nbalance_factor 125\n}", "", `balance_factor: "125" has no percent sign: write 125%, at Testfile:2`},
		{"maglev uri {\nbalance_factor 0%\n}", "", `balance_factor: "0%" is out of range, 100% to 10000%, at Testfile:2`},
		{"maglev uri {\nbalance_factor 90%\n}", "", `balance_factor: "90%" is out of range, 100% to 10000%, at Testfile:2`},
		{"maglev uri {\nring_points 9\n}", "", `unrecognized option "ring_points": expected table_size or balance_factor, at Testfile:2`},
		{"ring_hash uri {\ntable_size 3\n}", "", `unrecognized option "table_size": expected ring_points or balance_factor, at Testfile:2`},
		{"ring_hash uri {\nring_points 20000\n}", "", `ring_points: "20000" is out of range, 1 to 16384, at Testfile:2`},
		{"ring_hash uri {\nring_points 2\nring_points 2\n}", "", "ring_points is given twice, at Testfile:3"},
	} {
		t.Run(tc.text, func(t *testing.T) {
			policy := strings.Fields(tc.text)[0]
			module, err := caddy.GetModule(Namespace + "." + policy)
			if err != nil {
				t.Fatal(err)
			}
			b := module.New()
			err = b.(caddyfile.Unmarshaler).UnmarshalCaddyfile(caddyfile.NewTestDispenser(tc.text))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got error %v, want one with %q", err, tc.err)
				}
				return
			}
			got, jsonErr := json.Marshal(b)
			if err != nil || jsonErr != nil || string(got) != tc.want {
				t.Fatalf("got %s, %v, want %s", got, err, tc.want)
			}
			if _, err := load(t, policy, string(got)); err != nil {
				t.Errorf("got error %v, want it to load", err)
			}
		})
	}
}
