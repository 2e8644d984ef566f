package pipeline

import (
	"cmp"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/caddyfile/args"
	"github.com/caddy-sluice/sluice/internal/bodypipe"
)

// directive is the name of the directive.
const directive = "filters"

func init() {
	httpcaddyfile.RegisterHandlerDirective(directive, parse)
	// Inside of `encode`, so that filters see plain bodies, and outside of all that answers.
	httpcaddyfile.RegisterDirectiveOrder(directive, httpcaddyfile.Before, "invoke")
}

// parse reads the directive. Syntax:
//
//	filters [<matcher>] {
//		request_body_limit  <size>
//		response_body_limit <size>
//		body_timeout        <duration>
//
//		<filter> [<args...>] {
//			...
//		}
//		as <name> <filter> [<args...>] {
//			...
//		}
//		branch <name> {
//			...
//		}
//		when <matcher> {
//			<filters...>
//		}
//		unless <matcher> {
//			<filters...>
//		}
//		on_response status|header <args...> {
//			<filters...>
//		}
//		failure_mode open|closed {
//			<filters...>
//		}
//	}
//
// A matcher is a named one (`@api`), a path (`/v1/*`), a module with its arguments (`method POST`), or an expression in
// backticks. The names of the settings, `as`, `branch`, `when`, `unless`, `on_response` and `failure_mode` are never
// those of filters. A branch belongs to the filter right before it, and stands beside it, not in its block.
func parse(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	helper.Next() // consume directive name
	h := new(Handler)
	p := parser{Helper: helper, handler: h, names: make(map[string]bool), rejoins: new([]rejoin)}
	start := args.Here(helper.Dispenser)
	if err := args.Block(helper.Dispenser, p.option, repeatable()...); err != nil {
		return nil, err
	}
	if len(h.Filters) == 0 {
		return nil, start.Errf("%s: there is no filter in it", directive)
	}
	return h, p.checkRejoins()
}

// repeatable returns the options that may be there several times: groups and filters.
func repeatable() []string {
	return append(filters(), "as", "branch", "when", "unless", "on_response", "failure_mode")
}

// parser reads the block of the directive.
type parser struct {
	httpcaddyfile.Helper
	handler *Handler
	// around is what the groups say of the filters in them.
	around Entry
	// host is the filter that stands before, perhaps with branches of it: a branch may follow. Otherwise it is nil.
	host any
	// names are those of the filters so far, given or those of their modules. Groups share them, as they do rejoins.
	names map[string]bool
	// rejoins are the filters that branches go on at, and where it stands.
	rejoins *[]rejoin
}

// rejoin is where a branch goes on.
type rejoin struct {
	target string
	at     *caddyfile.Dispenser
}

// option reads the setting, group or filter at which the dispenser stands.
func (p *parser) option(d *caddyfile.Dispenser) (err error) {
	switch h := p.handler; d.Val() {
	case "request_body_limit":
		h.RequestBodyLimit, err = args.BytesIn(d, 1, bodypipe.MaxCeiling)
	case "response_body_limit":
		h.ResponseBodyLimit, err = args.BytesIn(d, 1, bodypipe.MaxCeiling)
	case "body_timeout":
		h.BodyTimeout, err = args.DurationIn(d, minBodyTimeout, maxBodyTimeout)
	default:
		err = p.member(d)
	}
	return err
}

// member reads what may be in a group too.
func (p *parser) member(d *caddyfile.Dispenser) error {
	switch d.Val() {
	case "request_body_limit", "response_body_limit", "body_timeout":
		return d.Errf("%s: it is for all filters, and so it can't be in a group; write it at the top of %s", d.Val(), directive)
	case "when", "unless":
		return p.condition(d)
	case "on_response":
		return p.onResponse(d)
	case "failure_mode":
		return p.failureMode(d)
	case "branch":
		return p.branch(d)
	case "chain":
		return d.Errf("chain: it is for JSON; in a Caddyfile write a snippet and import it")
	case "as":
		if !d.NextArg() {
			return d.Err("as: a name and a filter are missing")
		}
		name := d.Val()
		if !d.NextArg() {
			return d.Errf("as %s: a filter is missing", name)
		}
		if err := checkName(name); err != nil {
			return d.Errf("as %s: %v", name, err)
		}
		if p.names[name] {
			return d.Errf("as %s: it is the name of a filter before", name)
		}
		return p.filter(d, name)
	}
	return p.filter(d, "")
}

// filter reads a filter.
func (p *parser) filter(d *caddyfile.Dispenser, name string) error {
	module := d.Val()
	id := namespace + "." + module
	if _, err := caddy.GetModule(id); err != nil {
		if name != "" {
			return d.Errf("as %s: %q is no filter; must be one of %s", name, module, strings.Join(filters(), ", "))
		}
		return d.Errf("unrecognized option or filter %q: expected a setting (request_body_limit, response_body_limit, body_timeout), "+
			"a group (when, unless, on_response, failure_mode), as, branch, or one of the filters %s", module, strings.Join(filters(), ", "))
	}
	p.names[cmp.Or(name, module)] = true
	unmarshaler, err := caddyfile.UnmarshalModule(d, id)
	if err != nil {
		return err
	}
	if len(p.around.OnResponse) > 0 && !seesResponses(unmarshaler) {
		return d.Errf("on_response: has no meaning, %s doesn't look at responses", module)
	}
	entry := p.around
	entry.Name = name
	if entry.FilterRaw, err = args.Module(d, unmarshaler, "filter", module); err != nil {
		return err
	}
	p.handler.Filters = append(p.handler.Filters, entry)
	p.host = unmarshaler
	return nil
}
