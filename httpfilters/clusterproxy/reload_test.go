package clusterproxy

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// current is the handler of the config that runs now.
type current struct {
	handler atomic.Pointer[Handler]
}

// ServeHTTP passes a request to the handler that is current when it comes.
func (c *current) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return c.handler.Load().ServeHTTP(w, r, next)
}

// load makes a config the current one, and returns what ends it.
func (c *current) load(t testing.TB, clusters object) func() {
	t.Helper()
	ctx, stop := run(t, clusters)
	loaded, err := ctx.LoadModuleByID("http.handlers.cluster_proxy", encode(t, object{"cluster": "web"}))
	if err != nil {
		t.Fatal(err)
	}
	c.handler.Store(loaded.(*Handler))
	return stop
}

// TestReload checks that no request is lost while configs come and go, and that what is known of endpoints stays.
func TestReload(t *testing.T) {
	const reloads = 50
	live, other := newBackend(t, echo), newBackend(t, echo)
	config := object{"web": web([]string{live.address, other.address}, object{
		"balance": object{"policy": "round_robin"}, "passive": object{"fall": 2, "retry_after": int64(patience)},
	})}
	c := new(current)
	stop := c.load(t, config)
	s := serveHandler(t, c)
	done := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					s.do(t, http.MethodPost, "hello").want(t, http.StatusOK)
				}
			}
		})
	}
	for range reloads {
		before := stop
		stop = c.load(t, config)
		before()
	}
	close(done)
	clients.Wait()
	t.Run("Z97_nothing_is_left", func(t *testing.T) { s.idle(t) })
	t.Run("Z97_health_is_kept", func(t *testing.T) {
		other.Close()
		for range 8 {
			s.get(t).want(t, http.StatusOK)
		}
		before := stop
		stop = c.load(t, config)
		before()
		if got := statusOf(t, "web").Healthy; got != 1 {
			t.Errorf("got %d healthy endpoints, want 1", got)
		}
	})
	t.Run("Z98_refused_config", func(t *testing.T) {
		ctx, cancel := prepare(t, object{"web": web([]string{live.address}, nil)})
		_, err := ctx.LoadModuleByID("http.handlers.cluster_proxy", encode(t, object{"cluster": "nope"}))
		cancel()
		if err == nil {
			t.Fatal("got no error")
		}
		s.get(t).want(t, http.StatusOK)
		if got := statusOf(t, "web").Healthy; got != 1 {
			t.Errorf("got %d healthy endpoints, want 1", got)
		}
	})
	stop()
}
