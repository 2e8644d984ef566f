// Package modules loads single modules in tests, as Caddy does.
package modules

import (
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// Context returns the context of a config that has no app yet: each is made, with its defaults, when a module asks for
// it. What is loaded in the context is cleaned up when the test ends. Nothing is logged.
func Context(t testing.TB) caddy.Context {
	t.Helper()
	return ContextLogging(t, silent)
}

// ContextLogging is Context with a log.
func ContextLogging(t testing.TB, log caddy.BaseLog) caddy.Context {
	t.Helper()
	return provision(t, log, nil)
}

// ContextOf is Context, but for the apps that have settings. They are provisioned, and don't start.
func ContextOf(t testing.TB, apps caddy.ModuleMap) caddy.Context {
	t.Helper()
	return provision(t, silent, apps)
}

// silent is a log that nobody reads.
var silent = caddy.BaseLog{WriterRaw: []byte(`{"output":"discard"}`)}

func provision(t testing.TB, log caddy.BaseLog, apps caddy.ModuleMap) caddy.Context {
	t.Helper()
	base, err := caddy.ProvisionContext(&caddy.Config{
		Admin:   &caddy.AdminConfig{Disabled: true},
		Logging: &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {BaseLog: log}}},
		AppsRaw: apps,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(base)
	t.Cleanup(cancel)
	return ctx
}

// Load provisions a module from its JSON.
func Load(t testing.TB, id, json string) (any, error) {
	t.Helper()
	return Context(t).LoadModuleByID(id, []byte(json))
}
