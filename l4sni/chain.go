package l4sni

import (
	"errors"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
)

// errNoHandler refuses a list of handlers that does nothing.
var errNoHandler = errors.New("needs at least one handler")

// chain is a list of handlers, loaded once. Behind the last one comes whatever the caller says.
type chain []layer4.NextHandler

// loadChain loads the handlers in the field HandlersRaw of owner, which must be a pointer to a struct.
func loadChain(ctx caddy.Context, owner any) (chain, error) {
	mods, err := ctx.LoadModule(owner, "HandlersRaw")
	if err != nil {
		return nil, err
	}
	var c chain
	for _, mod := range mods.([]any) {
		c = append(c, mod.(layer4.NextHandler))
	}
	return c, nil
}

// handle runs the connection through the handlers and then through next.
func (c chain) handle(cx *layer4.Connection, next layer4.Handler) error {
	if len(c) == 0 {
		return next.Handle(cx)
	}
	return c[0].Handle(cx, link{c[1:], next})
}

// link is what stands behind a handler of a chain: the rest, then next.
type link struct {
	rest chain
	next layer4.Handler
}

// Handle implements layer4.Handler.
func (l link) Handle(cx *layer4.Connection) error { return l.rest.handle(cx, l.next) }
