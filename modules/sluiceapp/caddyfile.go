package sluiceapp

import (
	"encoding/json"
	"fmt"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/caddy-sluice/sluice/caddyfile/args"
	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/modules/cluster"
)

func init() {
	httpcaddyfile.RegisterGlobalOption(appName, parseOption)
}

// parseOption reads the global option. A second block adds to the first; it can't give what that has given.
func parseOption(d *caddyfile.Dispenser, existing any) (any, error) {
	app, given := new(App), make(options)
	if before, ok := existing.(httpcaddyfile.App); ok {
		if err := json.Unmarshal(before.Value, app); err != nil {
			return nil, fmt.Errorf("reading the block before: %w", err)
		}
		given.add(before.Value)
	}
	if err := app.unmarshalBlock(d, given); err != nil {
		return nil, err
	}
	return app.option(d, given)
}

// option returns what becomes of the global option. What was given is in it, also if it is the default: the next block asks.
func (a *App) option(d *caddyfile.Dispenser, given options) (any, error) {
	var value any = a
	if _, guarded := given["guard"]; guarded {
		value = struct {
			*App
			Guard netguard.Mode `json:"guard"`
		}{a, a.Guard}
	}
	config, err := json.Marshal(value)
	if err != nil { // never null: that is an app without limits and clusters
		return nil, d.WrapErr(err)
	}
	return httpcaddyfile.App{Name: appName, Value: config}, nil
}

// UnmarshalCaddyfile reads the global option. Syntax:
//
//	sluice {
//		admission {
//			max_connections    <number>
//			max_requests       <number>
//			memory_limit       <size>|<percent>%
//			open_files_reserve <number>|<percent>%
//			failure_mode       open|closed
//		}
//		shutdown_grace <duration>
//		preread_memory <size>
//		body_memory    <size>
//		guard          dns|strict|off
//		cluster <name> {
//			...
//		}
//	}
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return a.unmarshalBlock(d, make(options))
}

// unmarshalBlock reads a block. given are the options of the blocks before; it gets those that may be the default.
func (a *App) unmarshalBlock(d *caddyfile.Dispenser, given options) error {
	d.Next() // consume option name
	return args.Block(d, func(d *caddyfile.Dispenser) error { return a.unmarshalOption(d, given) }, "cluster")
}

// unmarshalOption reads the option at which d stands.
func (a *App) unmarshalOption(d *caddyfile.Dispenser, given options) (err error) {
	if err := given.check(d); err != nil {
		return err
	}
	switch d.Val() {
	case "admission":
		if a.Admission == nil {
			a.Admission = new(Admission)
		}
		err = args.Block(d, func(d *caddyfile.Dispenser) error {
			if err := given.check(d); err != nil {
				return err
			}
			return a.Admission.unmarshalOption(d)
		})
	case "shutdown_grace":
		err = a.unmarshalGrace(d)
	case "preread_memory":
		a.PrereadMemory, err = args.Bytes(d)
	case "body_memory":
		a.BodyMemory, err = args.Bytes(d)
	case "guard":
		given["guard"] = nil
		a.Guard, err = cluster.UnmarshalGuard(d)
	case "cluster":
		err = a.unmarshalCluster(d)
	default:
		err = d.Errf("unrecognized option %q: expected admission, shutdown_grace, preread_memory, body_memory, guard or cluster", d.Val())
	}
	return err
}

// options are those of blocks before, but for the ones that have options or names themselves. In JSON they have the same
// names.
type options map[string]json.RawMessage

// add adds the options of a block.
func (o options) add(block json.RawMessage) {
	_ = json.Unmarshal(block, &o) // which was read before
	_ = json.Unmarshal(o["admission"], &o)
	delete(o, "admission")
}

// check refuses the option at which d stands if a block before has it.
func (o options) check(d *caddyfile.Dispenser) error {
	if _, given := o[d.Val()]; given {
		return d.Errf("%s is given twice, in two blocks %s", d.Val(), appName)
	}
	return nil
}

// unmarshalGrace reads a duration that may be 0.
func (a *App) unmarshalGrace(d *caddyfile.Dispenser) error {
	grace, err := args.DurationIn(d, 0, maxGrace)
	a.ShutdownGrace = &grace
	return err
}

// unmarshalOption reads the limit at which d stands.
func (l *Admission) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	switch d.Val() {
	case "max_connections":
		l.MaxConnections, err = args.Int(d)
	case "max_requests":
		l.MaxRequests, err = args.Int(d)
	case "memory_limit":
		l.MemoryLimit, err = args.Share(d)
	case "open_files_reserve":
		l.OpenFilesReserve, err = args.Share(d)
	case "failure_mode":
		l.FailureMode, err = args.One(d)
	default:
		err = d.Errf("unrecognized option %q: expected max_connections, max_requests, memory_limit, open_files_reserve or failure_mode", d.Val())
	}
	return err
}

// Interface guards
var _ caddyfile.Unmarshaler = (*App)(nil)
