package cluster

import (
	"time"

	"github.com/caddy-sluice/sluice/internal/health"
	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/modules/balancers"
	"github.com/caddy-sluice/sluice/modules/discovery"
	"github.com/caddy-sluice/sluice/modules/healthchecks"
	"github.com/caddy-sluice/sluice/modules/hostport"
	"github.com/caddy-sluice/sluice/modules/upstreamtls"
)

// settings are what a Config comes to: checked, with defaults. They don't change.
type settings struct {
	// policy is what health has to know.
	policy   health.Config
	balancer balancers.Balancer
	// static are the endpoints that are configured, sources those that find more.
	static  []member
	sources []discovery.Source

	// checker is nil without active checks.
	checker           healthchecks.Checker
	interval, timeout time.Duration
	// check is the same for the same kind of check with the same interval.
	check uint64
	// closeAfter is how long connections go on at an unhealthy endpoint; 0 or less: as long as they like.
	closeAfter time.Duration

	// tls is nil without TLS to the endpoints.
	tls           *upstreamtls.Client
	proxyProtocol string
	guard         netguard.Mode

	// methods are those of requests that are tried again, bodyLimit how long a body may be that is kept for it.
	methods   map[string]bool
	bodyLimit int64
	// perClient is how many connections a client may have; 0: as many as it likes.
	perClient int64
}

// member is an endpoint as it was configured or found.
type member struct {
	hostport.Address
	weight uint32
	backup bool
	limits health.Limits
	// trusted says that the operator wrote the address.
	trusted bool
	// naming is nil for a name that is looked up as it stands.
	naming *naming
}
