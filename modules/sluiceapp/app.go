// Package sluiceapp is the app `sluice`: what belongs to the process and not to one route. It admits connections, says
// what addresses may be connected to, and ends what is left when the process exits.
package sluiceapp

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/mholt/caddy-l4/layer4"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/modules/cluster"
)

// appName is the name of the app.
const appName = "sluice"

func init() {
	caddy.RegisterModule(&App{})
}

// App is the app `sluice`. It is there, with its defaults, as soon as a config has one of our layer-4 modules.
type App struct {
	// The limits of the process.
	Admission *Admission `json:"admission,omitempty"`

	// How long connections may go on when the process exits, before they are ended. `0s` ends them at once. Range: 0 to
	// `1h`. Default: `4s`, since the systemd unit that Caddy ships with kills after 5. No placeholders.
	ShutdownGrace *caddy.Duration `json:"shutdown_grace,omitempty"`

	// How many bytes the first bytes of connections may take that are not decided yet, all together. Past it new ones are
	// refused. Range: 1 MiB to 64 GiB. Default: 64 MiB. No placeholders.
	PrereadMemory int64 `json:"preread_memory,omitempty"`

	// How many bytes the bodies of requests and responses may take that HTTP filters hold back, all together. Past it a
	// request whose body would have to be held back gets 503. A body may take up to twice its size while it is read. Range:
	// 1 MiB to 1 TiB. Default: 256 MiB. No placeholders.
	BodyMemory int64 `json:"body_memory,omitempty"`

	// Lists of HTTP filters that a `filters` handler takes in by their name, with `chain`. Each handler has its own copies
	// of the filters; what is wrong with them is found where they are used. A name has 1 to 64 letters, digits, `_` and `-`;
	// a list has at least one filter, and no chain in it. In a Caddyfile, `import` does this.
	FilterChains map[string][]json.RawMessage `json:"filter_chains,omitempty"`

	// Which addresses of upstreams are checked before they are connected to: `dns` (those that come from DNS or from a
	// placeholder), `strict` (all) or `off` (none). A handler's `guard` comes first. Default: `dns`.
	Guard netguard.Mode `json:"guard,omitempty"`

	// The clusters: endpoints that connections and requests are spread over. The names consist of letters, digits, `_` and
	// `-`.
	Clusters map[string]*cluster.Config `json:"clusters,omitempty"`

	// clusters are the same, ready to use and sorted by name.
	clusters []*cluster.Cluster

	grace time.Duration
	gates gates
	// sheds are the gates' for connections, requestSheds those for requests.
	sheds, requestSheds sheds
	state               *state
	// giveProcess is the state's, made once.
	giveProcess func()
	ctx         caddy.Context
	logger      *zap.Logger
	// layer4 is the layer4 app of the same config, if there is one.
	layer4 *layer4.App
	// doors are its listeners, which a goroutine watches until stopWatch is closed; then it closes watchDone.
	doors                []*door
	stopWatch, watchDone chan struct{}
	// exitBy is when sessions are ended, once the process exits.
	exitBy time.Time

	// mu guards checked.
	mu sync.Mutex
	// checked has what Once was called for.
	checked map[any]error
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  appName,
		New: func() caddy.Module { return new(App) },
	}
}

// Of returns the app of the config that is being provisioned.
func Of(ctx caddy.Context) (*App, error) {
	app, err := ctx.App(appName)
	if err != nil {
		return nil, err
	}
	return app.(*App), nil
}

// Once calls f if it is the first time that it is asked for key under this config, and returns what f returned then. It
// is for checks of the whole config, which the first module that is provisioned makes for all.
func (a *App) Once(key any, f func() error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err, done := a.checked[key]; done {
		return err
	}
	err := f()
	if a.checked == nil {
		a.checked = make(map[any]error)
	}
	a.checked[key] = err
	return err
}
