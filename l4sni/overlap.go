package l4sni

import (
	"slices"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-sluice/sluice/internal/snitable"
	"github.com/caddy-sluice/sluice/modules/addrcheck"
)

// warnOverlap warns about names that are passed through and that one of Caddy's own sites on the same port covers as
// well. A browser that has an HTTP/2 or HTTP/3 connection to that site may use it for the other name too, past the
// passthrough (RFC 9113 §9.1.1).
func (h *Router) warnOverlap(ctx caddy.Context) error {
	sites := addrcheck.Sites(ctx)
	repl := caddy.NewReplacer()
	for i, route := range h.Routes {
		for _, name := range route.Names {
			pattern, err := snitable.Normalize(repl.ReplaceAll(name, ""))
			if err != nil {
				return err
			}
			covered := slices.IndexFunc(sites, func(site string) bool { return snitable.Covers(pattern, site) })
			if covered >= 0 {
				h.logger.Warn("a name that is passed through is also one of Caddy's own sites on this port: "+
					"browsers may reuse the site's HTTP/2 or HTTP/3 connection for it",
					zap.Int("route", i), zap.String("pattern", pattern), zap.String("site", sites[covered]))
				break // one line for a route is enough: there may be thousands of names
			}
		}
	}
	return nil
}
