package pipeline

import (
	"encoding/json"
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
// those of filters. A branch belongs to the filter before it.
func parse(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	helper.Next() // consume directive name
	h := new(Handler)
	p := parser{Helper: helper, handler: h}
	return h, args.Block(helper.Dispenser, p.option, repeatable()...)
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
	// first is where the filters of the innermost group begin.
	first int
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
	return nil
}

// filters returns the names of the filters that there are.
func filters() (names []string) {
	for _, m := range caddy.GetModules("http.filters") {
		names = append(names, m.ID.Name())
	}
	return names
}

// group reads the filters of a group.
func (p *parser) group(d *caddyfile.Dispenser, around Entry) error {
	word := d.Val()
	inner := *p
	inner.around, inner.first = around, len(p.handler.Filters)
	if err := args.Options(d, inner.member, repeatable()...); err != nil {
		return err
	}
	if len(p.handler.Filters) == inner.first {
		return d.Errf("%s: there is no filter in it", word)
	}
	return nil
}

// condition reads a group whose filters apply to some requests.
func (p *parser) condition(d *caddyfile.Dispenser) error {
	word := d.Val()
	match, err := p.matcher(d)
	if err != nil {
		return err
	}
	around := p.around
	c := Condition{WhenRaw: caddyhttp.RawMatcherSets{match}}
	if word == "unless" {
		c = Condition{UnlessRaw: caddyhttp.RawMatcherSets{match}}
	}
	around.Conditions = append(append([]Condition(nil), around.Conditions...), c)
	return p.group(d, around)
}

// matcher reads the matcher on the rest of the line.
func (p *parser) matcher(d *caddyfile.Dispenser) (caddy.ModuleMap, error) {
	word := d.Val()
	tokens := append([]caddyfile.Token{d.Token()}, remaining(d)...)
	if len(tokens) == 1 {
		return nil, d.Errf("%s: a matcher is missing", word)
	}
	line := caddyfile.NewDispenser(tokens)
	line.Next()
	match, ok, err := p.WithDispenser(line).MatcherToken()
	switch {
	case err != nil:
		return nil, err
	case ok && line.NextArg():
		return nil, line.ArgErr()
	case ok && match == nil:
		return nil, d.Errf("%s: * matches all requests", word)
	case ok:
		return match, nil
	}
	line.Reset()
	line.Next()
	return caddyhttp.ParseCaddyfileNestedMatcherSet(line)
}

// remaining returns the rest of the line, up to a block.
func remaining(d *caddyfile.Dispenser) []caddyfile.Token {
	var tokens []caddyfile.Token
	for d.NextArg() {
		tokens = append(tokens, d.Token())
	}
	return tokens
}

// onResponse reads a group whose filters apply to some responses.
func (p *parser) onResponse(d *caddyfile.Dispenser) error {
	tokens := append([]caddyfile.Token{d.Token()}, remaining(d)...)
	if len(tokens) == 1 {
		return d.Err("on_response: expected status <codes...> or header <field> [<value>]")
	}
	matchers := make(map[string]caddyhttp.ResponseMatcher)
	if err := caddyhttp.ParseNamedResponseMatcher(caddyfile.NewDispenser(tokens), matchers); err != nil {
		return err
	}
	around := p.around
	around.OnResponse = append(append([]caddyhttp.ResponseMatcher(nil), around.OnResponse...), matchers[tokens[0].Text])
	return p.group(d, around)
}

// failureMode reads a group whose filters may fail, or may not.
func (p *parser) failureMode(d *caddyfile.Dispenser) error {
	if !d.NextArg() || d.Val() != open && d.Val() != closed {
		return d.Errf("failure_mode: expected %s or %s, and a block of filters", open, closed)
	}
	around := p.around
	around.FailureMode = d.Val()
	if d.CountRemainingArgs() > 0 {
		return d.ArgErr()
	}
	return p.group(d, around)
}

// branch reads a branch of the filter before it. Syntax:
//
//	branch <name> {
//		on     [<key>] <result>
//		match  <matcher>
//		handle {
//			<directives...>
//		}
//		rejoin         next|end|terminal|<filter>
//		max_iterations <number>
//	}
func (p *parser) branch(d *caddyfile.Dispenser) error {
	if len(p.handler.Filters) == p.first {
		return d.Err("branch: there is no filter before it")
	}
	name, err := args.One(d)
	if err != nil {
		return err
	}
	b := Branch{Name: name}
	if err := args.Options(d, func(d *caddyfile.Dispenser) error { return p.branchOption(d, &b) }); err != nil {
		return err
	}
	last := &p.handler.Filters[len(p.handler.Filters)-1]
	last.Branches = append(last.Branches, b)
	return nil
}

// branchOption reads the option of a branch at which d stands.
func (p *parser) branchOption(d *caddyfile.Dispenser, b *Branch) (err error) {
	switch d.Val() {
	case "on":
		b.OnResult, err = unmarshalResult(d)
	case "match":
		var match caddy.ModuleMap
		match, err = p.matcher(d)
		b.MatchRaw = caddyhttp.RawMatcherSets{match}
	case "handle":
		err = p.routes(d, b)
	case "rejoin":
		b.Rejoin, err = args.One(d)
	case "max_iterations":
		b.MaxIterations, err = args.Number(d, 1, maxIterations)
	default:
		err = d.Errf("unrecognized option %q: expected on, match, handle, rejoin or max_iterations", d.Val())
	}
	return err
}

// unmarshalResult reads a result.
func unmarshalResult(d *caddyfile.Dispenser) (*OnResult, error) {
	words, err := args.Many(d)
	if err != nil {
		return nil, err
	}
	switch len(words) {
	case 1:
		return &OnResult{Result: words[0]}, nil
	case 2:
		return &OnResult{Key: words[0], Result: words[1]}, nil
	}
	return nil, d.ArgErr()
}

// routes reads the directives of a branch.
func (p *parser) routes(d *caddyfile.Dispenser, b *Branch) error {
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
