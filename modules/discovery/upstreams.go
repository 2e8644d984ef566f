package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-sluice/sluice/modules/hostport"
)

// upstreamsNamespace is that of the modules which find upstreams for Caddy's reverse proxy.
const upstreamsNamespace = "http.reverse_proxy.upstreams."

// upstreamsFinder asks a module of Caddy's reverse proxy.
type upstreamsFinder struct {
	id, name string
	module   reverseproxy.UpstreamSource
	// busy says that the module is being asked. One that does not heed the end of a context is asked again only after it
	// has answered.
	busy atomic.Bool
}

// answer is what a module says.
type answer struct {
	found []Endpoint
	err   error
}

// loadUpstreams loads the module and returns what asks it.
func (d *Discover) loadUpstreams(ctx caddy.Context) (*upstreamsFinder, error) {
	var settings any
	if err := json.Unmarshal(d.UpstreamsRaw, &settings); err != nil {
		return nil, fmt.Errorf("upstreams: %w", err)
	}
	if asksCluster(settings) {
		return nil, errors.New("upstreams: source: a cluster can't be found by a cluster")
	}
	id, err := identity("upstreams", settings)
	if err != nil {
		return nil, fmt.Errorf("upstreams: %w", err)
	}
	loaded, err := ctx.LoadModule(d, "UpstreamsRaw")
	if err != nil {
		return nil, fmt.Errorf("upstreams: %w", err)
	}
	module, ok := loaded.(reverseproxy.UpstreamSource)
	if !ok {
		return nil, fmt.Errorf("upstreams: source: %T does not find upstreams", loaded)
	}
	return &upstreamsFinder{id: id, name: loaded.(caddy.Module).CaddyModule().ID.Name(), module: module}, nil
}

// asksCluster says whether a module is ours that gives the endpoints of a cluster, or Caddy's `multi` with ours in it.
func asksCluster(settings any) bool {
	object, _ := settings.(map[string]any)
	if object["source"] != "multi" {
		return object["source"] == "cluster"
	}
	sources, _ := object["sources"].([]any)
	return slices.ContainsFunc(sources, asksCluster)
}

func (f *upstreamsFinder) identity() string { return f.id }

// label returns the name of the module. Its settings may have secrets in them.
func (f *upstreamsFinder) label() string { return f.name }

// find asks the module, with a request of nobody's.
func (f *upstreamsFinder) find(ctx context.Context, _ []Endpoint) ([]Endpoint, time.Duration, error) {
	if !f.busy.CompareAndSwap(false, true) {
		return nil, 0, errors.New("the module has not answered the last time yet")
	}
	answers := make(chan answer, 1)
	go f.ask(ctx, answers)
	select {
	case a := <-answers:
		return a.found, noTTL, a.err
	case <-ctx.Done():
		return nil, 0, fmt.Errorf("asking the module: %w", ctx.Err())
	}
}

// ask asks the module. It is a goroutine of its own, for which find waits until ctx ends: the module may wait for longer.
func (f *upstreamsFinder) ask(ctx context.Context, answers chan<- answer) {
	found, err := f.call(ctx)
	f.busy.Store(false)
	answers <- answer{found, err}
}

// call calls the module. If it panics, that is its answer.
func (f *upstreamsFinder) call(ctx context.Context) (found []Endpoint, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			found, err = nil, fmt.Errorf("the module panicked: %v", cause)
		}
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", nil)
	if err != nil {
		return nil, err
	}
	replacer := caddy.NewReplacer()
	request = caddyhttp.PrepareRequest(request, replacer, nil, new(caddyhttp.Server))
	upstreams, err := f.module.GetUpstreams(request)
	if err != nil {
		return nil, err
	}
	for _, upstream := range upstreams {
		endpoint, err := endpointOf(upstream, replacer)
		if err != nil {
			return nil, err
		}
		found = append(found, endpoint)
	}
	return found, nil
}

// endpointOf returns the endpoint that an upstream is, in the form in which the same address is always the same.
func endpointOf(upstream *reverseproxy.Upstream, replacer *caddy.Replacer) (Endpoint, error) {
	if upstream == nil || upstream.Dial == "" {
		return Endpoint{}, errors.New("the module gave an upstream without an address")
	}
	dial, err := replacer.ReplaceOrErr(upstream.Dial, true, true)
	if err != nil {
		return Endpoint{}, fmt.Errorf("upstream %q: %w", upstream.Dial, err)
	}
	address, err := hostport.Parse(dial)
	if err != nil {
		return Endpoint{}, fmt.Errorf("upstream %w", err)
	}
	if address.Path != "" {
		return Endpoint{}, fmt.Errorf("upstream %q: must be host:port, not a unix socket", dial)
	}
	address = address.Normal()
	return Endpoint{Host: address.Host, Port: address.Port, Weight: 1}, nil
}
