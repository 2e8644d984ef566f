package pipeline

import (
	"cmp"
	"encoding/json"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/caddyfile/args"
)

// branch reads a branch of the filter before it. Syntax:
//
//	branch <name> {
//		on     [<key>] <result>
//		match  <matcher>
//		match {
//			<matchers...>
//		}
//		handle {
//			<directives...>
//		}
//		rejoin         next|end|terminal|<filter>
//		max_iterations <number>
//	}
func (p *parser) branch(d *caddyfile.Dispenser) error {
	start := args.Here(d)
	if p.host == nil {
		return d.Err("branch: there is no filter before it; a branch stands right behind its filter")
	}
	name, err := args.One(d)
	if err != nil {
		return err
	}
	b := Branch{Name: name}
	if err := args.Options(d, func(d *caddyfile.Dispenser) error { return p.branchOption(d, &b) }); err != nil {
		return err
	}
	if len(b.Routes) == 0 && b.leadsNowhere() {
		return start.Errf("branch %s: handle is missing; only a branch that rejoins at %s or at a filter may be without", name, rejoinEnd)
	}
	last := &p.handler.Filters[len(p.handler.Filters)-1]
	last.Branches = append(last.Branches, b)
	return nil
}

// branchOption reads the option of a branch at which d stands.
func (p *parser) branchOption(d *caddyfile.Dispenser, b *Branch) (err error) {
	switch d.Val() {
	case "on":
		b.OnResult, err = p.result(d)
	case "match":
		var match caddy.ModuleMap
		match, err = p.matchers(d)
		b.MatchRaw = caddyhttp.RawMatcherSets{match}
	case "handle":
		err = p.routes(d, b)
	case "rejoin":
		if b.Rejoin, err = args.One(d); err == nil {
			*p.rejoins = append(*p.rejoins, rejoin{b.Rejoin, args.Here(d)})
		}
	case "max_iterations":
		b.MaxIterations, err = args.Number(d, 1, maxIterations)
	default:
		err = d.Errf("unrecognized option %q: expected on, match, handle, rejoin or max_iterations", d.Val())
	}
	return err
}

// checkRejoins refuses branches that go on at a filter that isn't there.
func (p *parser) checkRejoins() error {
	for _, r := range *p.rejoins {
		if !p.names[r.target] && !reservedName(r.target) {
			return r.at.Errf("rejoin: there is no filter %q; must be %s, %s, %s or the name of one", r.target, rejoinNext, rejoinEnd, rejoinTerminal)
		}
	}
	return nil
}

// matchers reads the matcher on the rest of the line, or those in a block, which must all match.
func (p *parser) matchers(d *caddyfile.Dispenser) (caddy.ModuleMap, error) {
	if d.CountRemainingArgs() > 0 {
		return p.matcher(d)
	}
	block := d.NewFromNextSegment()
	block.Next() // consume match
	set, err := nestedMatchers(block)
	if err == nil && len(set) == 0 {
		err = d.Err("match: a matcher is missing")
	}
	return set, err
}

// result reads a result of the filter that the branch is for.
func (p *parser) result(d *caddyfile.Dispenser) (*OnResult, error) {
	words, err := args.Many(d)
	if err != nil {
		return nil, err
	}
	on := new(OnResult)
	switch len(words) {
	case 1:
		on.Result = words[0]
	case 2:
		on.Key, on.Result = words[0], words[1]
	default:
		return nil, d.Errf("on takes a key and a result, or a result of the key %s, got also %q", statusKey, words[2])
	}
	last := &p.handler.Filters[len(p.handler.Filters)-1]
	filter := cmp.Or(last.Name, moduleName(last.FilterRaw))
	if err := checkDeclared(declared(p.host), filter, cmp.Or(on.Key, statusKey), on.Result); err != nil {
		return nil, d.Errf("on: %v", err)
	}
	return on, nil
}

// routes reads the directives of a branch.
func (p *parser) routes(d *caddyfile.Dispenser, b *Branch) error {
	if d.CountRemainingArgs() > 0 {
		return d.Err("handle takes no matcher; write match beside it")
	}
	handler, err := httpcaddyfile.ParseSegmentAsSubroute(p.WithDispenser(d.NewFromNextSegment()))
	if err != nil {
		return err
	}
	if sub, ok := handler.(*caddyhttp.Subroute); ok {
		b.Routes = sub.Routes
		return nil
	}
	b.Routes = caddyhttp.RouteList{{HandlersRaw: []json.RawMessage{caddyconfig.JSONModuleObject(handler, "handler", "subroute", nil)}}}
	return nil
}
