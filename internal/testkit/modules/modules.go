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
	ctx, end := provision(t, log, nil)
	t.Cleanup(end)
	return ctx
}

// ContextOf is Context, but for the apps that have settings. They are provisioned when a module asks for them, and don't
// start.
func ContextOf(t testing.TB, apps caddy.ModuleMap) caddy.Context {
	t.Helper()
	ctx, end := ContextUntil(t, apps)
	t.Cleanup(end)
	return ctx
}

// ContextUntil is ContextOf until the test calls end, instead of until it is over.
func ContextUntil(t testing.TB, apps caddy.ModuleMap) (ctx caddy.Context, end func()) {
	t.Helper()
	return provision(t, silent, apps)
}

// silent is a log that nobody reads.
var silent = caddy.BaseLog{WriterRaw: []byte(`{"output":"discard"}`)}

func provision(t testing.TB, log caddy.BaseLog, apps caddy.ModuleMap) (ctx caddy.Context, end func()) {
	t.Helper()
	config := &caddy.Config{
		Admin:   &caddy.AdminConfig{Disabled: true},
		Logging: &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {BaseLog: log}}},
	}
	base, err := caddy.ProvisionContext(config)
	if err != nil {
		t.Fatal(err)
	}
	// They are loaded by the context that ends: nobody ends that of the config.
	config.AppsRaw = apps
	return caddy.NewContext(base)
}

// Load provisions a module from its JSON.
func Load(t testing.TB, id, json string) (any, error) {
	t.Helper()
	return Context(t).LoadModuleByID(id, []byte(json))
}
