package pipeline

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/caddyfile/args"
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
	p := parser{Helper: helper, handler: h}
	start := here(helper.Dispenser)
	if err := args.Block(helper.Dispenser, p.option, repeatable()...); err != nil {
		return nil, err
	}
	if len(h.Filters) == 0 {
		return nil, start.Errf("%s: there is no filter in it", directive)
	}
	return h, nil
}

// here returns a dispenser that stays where d stands, for errors about what begins there.
func here(d *caddyfile.Dispenser) *caddyfile.Dispenser {
	stays := caddyfile.NewDispenser([]caddyfile.Token{d.Token()})
	stays.Next()
	return stays
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
	// hosts says that what stands before is a filter, or a branch of it: a branch may follow.
	hosts bool
}

// option reads the setting, group or filter at which the dispenser stands.
func (p *parser) option(d *caddyfile.Dispenser) (err error) {
	switch h := p.handler; d.Val() {
	case "request_body_limit":
		h.RequestBodyLimit, err = args.Bytes(d)
	case "response_body_limit":
		h.ResponseBodyLimit, err = args.Bytes(d)
	case "body_timeout":
		h.BodyTimeout, err = args.Duration(d)
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
	case "as":
		if !d.NextArg() {
			return d.Err("as: a name and a filter are missing")
		}
		name := d.Val()
		if !d.NextArg() {
			return d.Errf("as %s: a filter is missing", name)
		}
		return p.filter(d, name)
	}
	return p.filter(d, "")
}

// filter reads a filter.
func (p *parser) filter(d *caddyfile.Dispenser, name string) error {
	module := d.Val()
	id := "http.filters." + module
	if _, err := caddy.GetModule(id); err != nil {
		if name != "" {
			return d.Errf("as %s: %q is no filter; must be one of %s", name, module, strings.Join(filters(), ", "))
		}
		return d.Errf("unrecognized option or filter %q: expected a setting (request_body_limit, response_body_limit, body_timeout), "+
			"a group (when, unless, on_response, failure_mode), as, branch, or one of the filters %s", module, strings.Join(filters(), ", "))
	}
	unmarshaler, err := caddyfile.UnmarshalModule(d, id)
	if err != nil {
		return err
	}
	entry := p.around
	entry.Name = name
	entry.FilterRaw = caddyconfig.JSONModuleObject(unmarshaler, "filter", module, nil)
	p.handler.Filters = append(p.handler.Filters, entry)
	p.hosts = true
	return nil
}

// filters returns the names of the filters that there are.
func filters() (names []string) {
	for _, m := range caddy.GetModules("http.filters") {
		names = append(names, m.ID.Name())
	}
	return names
}
