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
	return ContextLogging(t, caddy.BaseLog{WriterRaw: []byte(`{"output":"discard"}`)})
}

// ContextLogging is Context with a log.
func ContextLogging(t testing.TB, log caddy.BaseLog) caddy.Context {
	t.Helper()
	config := &caddy.Config{
		Admin:   &caddy.AdminConfig{Disabled: true},
		Logging: &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {BaseLog: log}}},
	}
	base, err := caddy.ProvisionContext(config)
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
