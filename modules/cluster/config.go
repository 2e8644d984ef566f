package cluster

import (
	"encoding/json"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/modules/discovery"
	"github.com/caddy-sluice/sluice/modules/upstreamtls"
)

// Config is a cluster as it is configured.
type Config struct {
	// The endpoints that are known: at least one, or a `discover`, and at most 10000. None may be listed twice.
	Endpoints []EndpointConfig `json:"endpoints,omitempty"`

	// Where more endpoints are found. An address that is also in `endpoints` is that endpoint.
	Discover []discovery.Discover `json:"discover,omitempty"`

	// How an endpoint is chosen. The endpoints must suit it: their number the table of `maglev`. Default: `p2c`.
	BalanceRaw json.RawMessage `json:"balance,omitempty" caddy:"namespace=sluice.balancers inline_key=policy"`

	// What happens when too few endpoints are available, see `panic_threshold`: `fail_open` uses all of one tier, whatever is
	// known about their health, `refuse` uses none. Neither passes a limit, or uses an endpoint that was taken out by hand.
	// Default: `fail_open`. No placeholders.
	OnNoEndpoint string `json:"on_no_endpoint,omitempty"`

	// The percentage of endpoints below which too few are available. The next tier, the backups last, serves then, and
	// what still works in the tiers before it doesn't. 0 means: when there is none at all. Range: 0 to 100. Default: 0. No
	// placeholders.
	PanicThreshold int `json:"panic_threshold,omitempty"`

	// Lets the weight of an endpoint grow after it has come back or was added. Default: off. Refused with `maglev`,
	// `ring_hash` and `first`.
	SlowStart *SlowStart `json:"slow_start,omitempty"`

	// Asks the endpoints whether they work. Default: off.
	Health *Health `json:"health,omitempty"`

	// Takes endpoints out at which requests fail, until they succeed again. Default: off.
	Passive *Passive `json:"passive,omitempty"`

	// Takes endpoints out for a while at which too many requests in a row fail. Default: off.
	Outlier *Outlier `json:"outlier,omitempty"`

	// How much may go on at a time. What is more is refused at once. Default: no limits.
	Limits *Limits `json:"limits,omitempty"`

	// Which failures are tried again. Default: failures to connect, of connections and of requests with the methods GET,
	// HEAD and OPTIONS and a body of at most 64 KiB, 3 times, at other endpoints, within the default budget.
	Retry *Retry `json:"retry,omitempty"`

	// How long one attempt of a request may take until the first byte of the answer. It holds for requests that can be
	// sent again. Range: `1ms` to `1d`, and not above `request_timeout`. Default: no limit. No placeholders.
	PerTryTimeout caddy.Duration `json:"per_try_timeout,omitempty"`

	// How long a request may take, with all its attempts. Range: `1ms` to `1d`. Default: no limit. No placeholders.
	RequestTimeout caddy.Duration `json:"request_timeout,omitempty"`

	// TLS to the endpoints. Default: none. A `forward` with a `tls` of its own has that.
	TLS *upstreamtls.TLS `json:"tls,omitempty"`

	// The PROXY protocol header that endpoints get first: `v1` or `v2`. Default: none. A `forward` with a
	// `proxy_protocol` of its own has that. No placeholders.
	ProxyProtocol string `json:"proxy_protocol,omitempty"`

	// Which addresses are checked before they are connected to: `dns`, `strict` or `off`. Default: that of the app. No
	// placeholders.
	Guard *netguard.Mode `json:"guard,omitempty"`

	// Whether endpoints may be at addresses that the guard refuses: loopback, private, link-local and the like. It is the
	// same as `guard` `off`, and refused with another `guard`.
	AllowPrivate bool `json:"allow_private,omitempty"`

	// How long connections may go on at an endpoint that has become unhealthy, before they are ended with the reason
	// `endpoint_unhealthy`. Range: `1ns` (at once) to `1d`. Default: no limit. No placeholders.
	CloseOnUnhealthy caddy.Duration `json:"close_on_unhealthy,omitempty"`
}

// EndpointConfig is an endpoint.
type EndpointConfig struct {
	// The address: `host:port`, or `unix/` and the path of a socket. A name that has several addresses is one endpoint,
	// whose addresses are tried in their order. Required. Placeholders such as `{env.NAME}` are replaced at load.
	Address string `json:"address,omitempty"`

	// Its share of the load, beside those of the others. Range: 1 to 65535. Default: 1. No placeholders.
	Weight *int `json:"weight,omitempty"`

	// Whether it serves only when too few of the others are available, see `panic_threshold`, or when a request has failed at
	// all of them. Default: `false`.
	Backup bool `json:"backup,omitempty"`

	// How much may go on at a time at this endpoint. Default: no limits but the cluster's.
	Limits *EndpointLimits `json:"limits,omitempty"`
}

// SlowStart says how the weight grows.
type SlowStart struct {
	// How long it takes. Range: `1s` to `1d`. Required. No placeholders.
	Window caddy.Duration `json:"window,omitempty"`

	// The percentage of the weight to begin with. Range: 1 to 100. Default: 10. No placeholders.
	MinPercent *int `json:"min_percent,omitempty"`

	// Bends the growth: 1 is a line, more lets it grow faster at first. Range: 1 to 10. Default: 1. No placeholders.
	Aggression *float64 `json:"aggression,omitempty"`

	// Whether the weight grows after an ejection too.
	AfterEjection bool `json:"after_ejection,omitempty"`
}

// Health are the active checks.
type Health struct {
	// How often an endpoint is checked. Range: `100ms` to `1d`. Default: `5s`. No placeholders.
	Interval caddy.Duration `json:"interval,omitempty"`

	// How long a check may take. Range: `1ms` to less than the interval. Default: `2s`, or half of an interval below `4s`.
	// No placeholders.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// How many checks in a row must pass before an unhealthy endpoint is healthy. Range: 1 to 1000. Default: 2. No
	// placeholders.
	Rise *int `json:"rise,omitempty"`

	// How many checks in a row must fail before a healthy endpoint is unhealthy. Range: 1 to 1000. Default: 3. No
	// placeholders.
	Fall *int `json:"fall,omitempty"`

	// The check. Required.
	CheckRaw json.RawMessage `json:"check,omitempty" caddy:"namespace=sluice.health_checks inline_key=type"`
}

// Passive counts what becomes of requests and connections, for the same health as active checks: failures of both add up.
type Passive struct {
	// How many in a row must fail before a healthy endpoint is unhealthy. Range: 1 to 1000. Default: 5. No placeholders.
	Fall *int `json:"fall,omitempty"`

	// How many in a row must succeed before an unhealthy endpoint is healthy. Range: 1 to 1000. Default: 2; 1 without
	// active checks. No placeholders.
	Rise *int `json:"rise,omitempty"`

	// The statuses of answers that are failures: codes such as `503`, classes such as `5xx`, ranges such as `500-503`.
	// Default: `5xx`. No placeholders.
	UnhealthyStatus []string `json:"unhealthy_status,omitempty"`

	// How long an unhealthy endpoint rests, in a cluster without active checks, before one request is let through as a
	// trial. Range: `1ms` to `1d`. Default: `30s`. Refused with active checks. No placeholders.
	RetryAfter caddy.Duration `json:"retry_after,omitempty"`
}

// Outlier says when endpoints are ejected.
type Outlier struct {
	// How many failures in a row lead to an ejection. Range: 1 to 1000. Default: 5. No placeholders.
	ConsecutiveFailures *int `json:"consecutive_failures,omitempty"`

	// How long an ejection lasts. Range: `1ms` to `1d`. Default: `30s`. No placeholders.
	EjectionTime caddy.Duration `json:"ejection_time,omitempty"`

	// Lets ejections grow: each is longer than the one before by `ejection_time`, up to this. Range: `ejection_time` to
	// `1d`. Default: all are of the same length. No placeholders.
	MaxEjectionTime caddy.Duration `json:"max_ejection_time,omitempty"`

	// The largest percentage of endpoints that are ejected at a time, the new one counted. Range: 1 to 100. Default: 50.
	// No placeholders.
	MaxEjectionPercent *int `json:"max_ejection_percent,omitempty"`

	// The statuses of answers that are failures, as in `passive`. Default: none, only failures to get an answer count.
	// No placeholders.
	FailureStatus []string `json:"failure_status,omitempty"`

	// Whether an active check that passes ends the ejection. Refused without active checks.
	CheckUnejects bool `json:"check_unejects,omitempty"`
}

// EndpointLimits say how much may go on at a time. Each: range 1 to 10000000, default no limit, no placeholders. They are
// pointers so that a 0 is seen, and refused.
type EndpointLimits struct {
	// Connections that are being made or serve. One that is idle in a pool isn't counted.
	MaxConnections *int64 `json:"max_connections,omitempty"`

	// Connections that are being made.
	MaxPending *int64 `json:"max_pending,omitempty"`

	// Requests; in `forward`, connections of clients.
	MaxRequests *int64 `json:"max_requests,omitempty"`

	// Retries that wait or are under way.
	MaxRetries *int64 `json:"max_retries,omitempty"`
}

// Limits are those of a cluster.
type Limits struct {
	EndpointLimits

	// Connections of one client, in `forward`. A client by IPv6 is its network of 64 bits.
	MaxConnectionsPerIP *int64 `json:"max_connections_per_ip,omitempty"`
}

// Retry says which failures are tried again, and how.
type Retry struct {
	// How many times a request is tried again. Range: 1 to 5. Required. No placeholders.
	Max int `json:"max,omitempty"`

	// The failures: `connect_failure` (a failed TLS handshake included), `reset` (the connection broke before the
	// answer), `per_try_timeout` (the time of the attempt was over: also that of Caddy's `response_header_timeout`).
	// Default: all of these. No placeholders.
	On []string `json:"on,omitempty"`

	// The statuses of answers that are tried again, as in `passive`. Default: none. No placeholders.
	Status []string `json:"status,omitempty"`

	// The methods of requests that are tried again: DELETE, GET, HEAD, OPTIONS, PATCH, POST, PROPFIND, PUT, REPORT, TRACE.
	// Default: GET, HEAD, OPTIONS. No placeholders.
	Methods []string `json:"methods,omitempty"`

	// The wait before a retry: at random up to BackoffBase, twice that before the next one, and so on up to BackoffCap.
	// Range: `1ms` to `1d`. Default: `25ms`, and `1s` or a larger BackoffBase. No placeholders.
	BackoffBase caddy.Duration `json:"backoff_base,omitempty"`
	BackoffCap  caddy.Duration `json:"backoff_cap,omitempty"`

	// The percentage of the requests under way that may be retries. Range: 1 to 100. Default: 20. No placeholders.
	BudgetPercent *int `json:"budget_percent,omitempty"`

	// How many retries may go on however few requests there are. Range: 0 to 1000. Default: 3. No placeholders.
	BudgetMin *int `json:"budget_min,omitempty"`

	// How many bytes a body may have that is kept to be sent again. Range: 0 (none is) to 16 MiB. Default: 64 KiB. No
	// placeholders.
	BodyLimit *int64 `json:"body_limit,omitempty"`
}
