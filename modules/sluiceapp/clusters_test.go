package sluiceapp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// asker is an app that asks for clusters by name.
type asker struct {
	// answers has what a name got: the guard of the cluster, or the error.
	answers map[string]string
}

// askers carries the asker of the config that was validated last.
var askers = make(chan *asker, 1)

func init() { caddy.RegisterModule(new(asker)) }

func (*asker) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "sluice_asker", New: func() caddy.Module { return new(asker) }}
}

func (a *asker) Provision(ctx caddy.Context) error {
	app, err := Of(ctx)
	if err != nil {
		return err
	}
	a.answers = make(map[string]string)
	for _, name := range []string{"web", "db", "wbe"} {
		c, err := app.Cluster(name)
		switch {
		case err != nil:
			a.answers[name] = err.Error()
		case c.Name() == name:
			a.answers[name] = c.Guard().String()
		}
	}
	askers <- a
	return nil
}

func (*asker) Start() error { return nil }
func (*asker) Stop() error  { return nil }

// withClusters validates a config of the app with these clusters, and an asker.
func withClusters(t *testing.T, clusters string) error {
	t.Helper()
	return caddy.Validate(&caddy.Config{AppsRaw: caddy.ModuleMap{
		appName:        json.RawMessage(`{"guard":"strict","clusters":` + clusters + `}`),
		"sluice_asker": json.RawMessage(`{}`),
	}})
}

// TestCluster checks what other modules get by a name, whichever app Caddy provisions first.
func TestCluster(t *testing.T) {
	for _, tc := range []struct {
		clusters string
		want     map[string]string
	}{
		{`{"web":{"endpoints":[{"address":"web.example:80"}]},"db":{"endpoints":[{"address":"10.0.0.1:80"}],"guard":"dns"}}`, map[string]string{
			"web": "strict", "db": "dns", "wbe": `cluster "wbe" is not known; must be one of db, web`,
		}},
		{`{}`, map[string]string{"web": `cluster "web" is not known: the sluice app has no clusters`}},
	} {
		if err := withClusters(t, tc.clusters); err != nil {
			t.Fatal(err)
		}
		a := <-askers
		for name, want := range tc.want {
			if got := a.answers[name]; got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	}
}

// TestClusterErrors checks that what is wrong with a cluster is said with its name and the field.
func TestClusterErrors(t *testing.T) {
	const good = `"a":{"endpoints":[{"address":"web.example:80"}]}`
	for clusters, want := range map[string]string{
		`{` + good + `,"b":{"endpoints":[{"address":"web.example"}]}}`: `clusters.b.endpoints[0].address: "web.example": must be an address`,
		`{"a":{},"b":{}}`: "clusters.a.endpoints: a cluster needs at least one",
		`{"a":null}`:      "clusters.a: is empty",
		`{"a b":{}}`:      `clusters: name "a b": must consist of`,
	} {
		if err := withClusters(t, clusters); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", clusters, err, want)
		}
		select {
		case <-askers:
		default:
		}
	}
}
