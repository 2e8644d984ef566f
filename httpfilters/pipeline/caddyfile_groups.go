package pipeline

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/caddyfile/args"
)

// group reads the filters of a group, which begins at start.
func (p *parser) group(start, d *caddyfile.Dispenser, around Entry) error {
	before := len(p.handler.Filters)
	inner := *p
	inner.around, inner.host = around, nil
	p.host = nil
	if err := args.Options(d, inner.member, repeatable()...); err != nil {
		return err
	}
	if len(p.handler.Filters) == before {
		return start.Errf("%s: there is no filter in it", start.Val())
	}
	return nil
}

// condition reads a group whose filters apply to some requests.
func (p *parser) condition(d *caddyfile.Dispenser) error {
	start := args.Here(d)
	match, err := p.matcher(d)
	if err != nil {
		return err
	}
	around := p.around
	c := Condition{WhenRaw: caddyhttp.RawMatcherSets{match}}
	if start.Val() == "unless" {
		c = Condition{UnlessRaw: caddyhttp.RawMatcherSets{match}}
	}
	around.Conditions = append(append([]Condition(nil), around.Conditions...), c)
	return p.group(start, d, around)
}

// matcher reads the matcher on the rest of the line.
func (p *parser) matcher(d *caddyfile.Dispenser) (caddy.ModuleMap, error) {
	word := d.Val()
	tokens := append([]caddyfile.Token{d.Token()}, remaining(d)...)
	if len(tokens) == 1 {
		return nil, d.Errf("%s: a matcher is missing: %s", word, saysMatchers)
	}
	line := caddyfile.NewDispenser(tokens)
	line.Next()
	match, ok, err := p.WithDispenser(line).MatcherToken()
	switch {
	case err != nil:
		return nil, d.Errf("%s: %v", word, err)
	case ok && match == nil:
		return nil, d.Errf("%s: * matches all requests, and so it says nothing", word)
	case ok && line.NextArg():
		return nil, d.Errf("%s takes one matcher, got also %q; several paths are `path %s ...`", word, line.Val(), tokens[1].Text)
	case ok:
		return match, nil
	case !tokens[1].Quoted() && !isModule(tokens[1].Text):
		return nil, d.Errf("%s: %q is no matcher; must be %s", word, tokens[1].Text, saysMatchers)
	}
	line.Reset()
	line.Next()
	return nestedMatchers(line)
}

// saysMatchers says what a matcher can be.
const saysMatchers = "@name, /path, the name of a matcher module with its arguments, or an expression in backticks"

// nestedMatchers reads the matchers on the line behind the word at which d stands, or in the block behind it.
func nestedMatchers(d *caddyfile.Dispenser) (caddy.ModuleMap, error) {
	start := args.Here(d)
	set, err := caddyhttp.ParseCaddyfileNestedMatcherSet(d)
	if err != nil {
		return nil, err
	}
	for name, raw := range set {
		if string(raw) == "null" { // which a matcher is that nothing was given to, and that would match nothing
			return nil, start.Errf("%s: %s: an argument is missing", start.Val(), name)
		}
	}
	return set, nil
}

// isModule reports whether there is a matcher module with a name.
func isModule(name string) bool {
	_, err := caddy.GetModule("http.matchers." + name)
	return err == nil
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
	start := args.Here(d)
	tokens := append([]caddyfile.Token{d.Token()}, remaining(d)...)
	if len(tokens) == 1 || tokens[1].Text != "status" && tokens[1].Text != "header" {
		return d.Err("on_response: expected status <codes...> or header <field> [<value>]")
	}
	matchers := make(map[string]caddyhttp.ResponseMatcher)
	if err := caddyhttp.ParseNamedResponseMatcher(caddyfile.NewDispenser(tokens), matchers); err != nil {
		return err
	}
	match := matchers[tokens[0].Text]
	if err := checkStatuses(match); err != nil {
		return start.Errf("on_response: %v", err)
	}
	around := p.around
	around.OnResponse = append(append([]caddyhttp.ResponseMatcher(nil), around.OnResponse...), match)
	return p.group(start, d, around)
}

// failureMode reads a group whose filters may fail, or may not.
func (p *parser) failureMode(d *caddyfile.Dispenser) error {
	start := args.Here(d)
	mode, err := args.Word(d, open, closed)
	if err != nil {
		return err
	}
	around := p.around
	around.FailureMode = mode
	return p.group(start, d, around)
}
