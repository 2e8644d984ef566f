// Package modules is the list of what Sluice ships.
package modules

import (
	// The layer-4 app, which hosts our handlers, and the stock handlers and matchers that go with them.
	_ "github.com/mholt/caddy-l4"

	_ "github.com/caddy-sluice/sluice/httpfilters/admission"
	_ "github.com/caddy-sluice/sluice/httpfilters/clusterproxy"
	_ "github.com/caddy-sluice/sluice/httpfilters/jsonfield"
	_ "github.com/caddy-sluice/sluice/httpfilters/pipeline"
	_ "github.com/caddy-sluice/sluice/httpfilters/validaterequest"
	_ "github.com/caddy-sluice/sluice/l4filters/accesslog"
	_ "github.com/caddy-sluice/sluice/l4filters/admission"
	_ "github.com/caddy-sluice/sluice/l4filters/forward"
	_ "github.com/caddy-sluice/sluice/l4filters/ipacl"
	_ "github.com/caddy-sluice/sluice/l4filters/next"
	_ "github.com/caddy-sluice/sluice/l4sni"
	_ "github.com/caddy-sluice/sluice/l4sni/explain"
	_ "github.com/caddy-sluice/sluice/l4sni/listener"
	_ "github.com/caddy-sluice/sluice/modules/adminapi"
	_ "github.com/caddy-sluice/sluice/modules/balancers"
	_ "github.com/caddy-sluice/sluice/modules/healthchecks"
)
