package sluiceapp

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/modules/session"
)

const (
	// defaultGrace leaves a second of the five that systemd gives Caddy between SIGTERM and SIGKILL.
	defaultGrace = 4 * time.Second
	maxGrace     = time.Hour
	// defaultPrereadMemory is room for 2,000 windows of the largest default size, or 64,000 of the first size.
	defaultPrereadMemory = 64 << 20
	minPrereadMemory     = 1 << 20
	maxPrereadMemory     = 64 << 30
)

// Provision checks the settings and sets the defaults.
func (a *App) Provision(ctx caddy.Context) error {
	a.ctx, a.logger = ctx, ctx.Logger()
	a.grace = defaultGrace
	if a.ShutdownGrace != nil {
		a.grace = time.Duration(*a.ShutdownGrace)
	}
	if a.grace < 0 || a.grace > maxGrace {
		return fmt.Errorf("shutdown_grace: %v is out of range, 0s to %v", a.grace, maxGrace)
	}
	if a.PrereadMemory == 0 {
		a.PrereadMemory = defaultPrereadMemory
	}
	if a.PrereadMemory < minPrereadMemory || a.PrereadMemory > maxPrereadMemory {
		return fmt.Errorf("preread_memory: %d is out of range, 1MiB to 64GiB", a.PrereadMemory)
	}
	if err := a.provisionBodies(); err != nil {
		return err
	}
	if err := a.checkChains(); err != nil {
		return err
	}
	if err := a.gates.provision(a.Admission); err != nil {
		return fmt.Errorf("admission.%w", err)
	}
	if err := session.Register(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	if err := Register(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	if err := a.watchConfig(ctx); err != nil {
		return err
	}
	var err error
	if a.state, err = takeState(); err != nil {
		return err
	}
	a.giveProcess = a.state.giveProcess
	a.sheds.prepare(false)
	a.requestSheds.prepare(true)
	return a.provisionClusters(ctx)
}

// Cleanup ends the watch over the gates and gives back what Provision took.
func (a *App) Cleanup() error {
	a.sheds.stop()
	a.requestSheds.stop()
	err := a.cleanupClusters()
	if a.state == nil {
		return err
	}
	return errors.Join(err, releaseState())
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
