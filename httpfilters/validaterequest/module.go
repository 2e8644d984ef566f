// Package validaterequest refuses requests that a backend could read differently from us, or that want to be what only
// the proxy may be.
package validaterequest

import (
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-sluice/sluice/modules/reserved"
)

// The answers to what an option asks.
const (
	refuse = "refuse"
	allow  = "allow"
	on     = "on"
	off    = "off"
)

// defaultReserved is the name of the headers that filters may set, and nobody else.
const defaultReserved = "X-Sluice-*"

func init() {
	caddy.RegisterModule(&Handler{})
}

// Handler is the handler `validate_request`. It checks requests before any other handler reads them, and answers 400 to
// those that break a rule: a Host that is missing, malformed or ambiguous, Content-Length and Content-Type with several
// values, headers with reserved names, and paths that climb. It removes reserved headers from answers, and ends or counts
// down TRACE and OPTIONS by `Max-Forwards`.
//
// Error routes have no part in that: they get a refused request without the reserved headers that the client has sent, but
// requests that were refused in front of the handler, and answers of the error routes, are cleaned only if it stands there
// too. There it removes what is reserved, and doesn't refuse a request again.
//
// Caddy's HTTP server does a large part before any handler is asked; the handler has the rest. It takes no notice of what
// stands in bodies.
type Handler struct {
	// Names of headers that clients may not send and that answers don't keep. A name that ends with `*` stands for all
	// that begin so. Case doesn't matter, and neither does `_` or `.` in the place of `-`. An empty list reserves nothing.
	// Default: `X-Sluice-*`. No placeholders.
	ReservedHeaders []string `json:"reserved_headers,omitzero"`

	// What happens to a path with a segment `..`: `refuse` or `allow`. Default: `refuse`.
	DotSegments string `json:"dot_segments,omitempty"`

	// What happens to a path that has a segment `..` once it is decoded, such as `%2e%2e` or `..%2f`: `refuse` or `allow`,
	// which passes it on as it is. Default: `allow`.
	EncodedDotSegments string `json:"encoded_dot_segments,omitempty"`

	// What happens to a path with an encoded slash (`%2f`) or a backslash, encoded or not: `refuse` or `allow`. Default:
	// `allow`.
	EncodedSlashes string `json:"encoded_slashes,omitempty"`

	// Whether TRACE and OPTIONS are answered here when `Max-Forwards` is 0, and counted down otherwise: `on` or `off`.
	// Default: `on`.
	MaxForwards string `json:"max_forwards,omitempty"`

	reserved reserved.Names
	logger   *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.validate_request",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision checks the settings and sets the defaults.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	for _, option := range []struct {
		name              string
		value             *string
		standard, another string
	}{
		{"dot_segments", &h.DotSegments, refuse, allow},
		{"encoded_dot_segments", &h.EncodedDotSegments, allow, refuse},
		{"encoded_slashes", &h.EncodedSlashes, allow, refuse},
		{"max_forwards", &h.MaxForwards, on, off},
	} {
		switch *option.value {
		case "":
			*option.value = option.standard
		case option.standard, option.another:
		default:
			return fmt.Errorf("%s: %q is not known; must be one of %s, %s", option.name, *option.value, option.standard, option.another)
		}
	}
	if h.ReservedHeaders == nil {
		h.ReservedHeaders = []string{defaultReserved}
	}
	var err error
	if h.reserved, err = reserved.Parse(h.ReservedHeaders); err != nil {
		return fmt.Errorf("reserved_headers: %w", err)
	}
	return register(ctx.GetMetricsRegistry())
}

// ServeHTTP calls next with requests that are in order. Where errors are handled it removes reserved headers, whoever has
// set them, and refuses only what wasn't judged before: one that was refused is to get its answer.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	failure, failed := r.Context().Value(caddyhttp.ErrorCtxKey).(error)
	h.reserve(r) // error routes have the request of a refusal too
	if failed {
		h.strip(r)
	}
	if reason := h.judge(r); reason != inOrder && !isBroken(failure) {
		h.strip(r)
		return h.refuse(w, r, reason)
	}
	if h.MaxForwards == on && !failed && lastHop(r) {
		return answer(w, r)
	}
	if len(h.reserved) == 0 {
		return next.ServeHTTP(w, r)
	}
	out := &cleaner{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, reserved: h.reserved}
	// Trailers are written when all handlers have returned.
	defer out.clean()
	err := next.ServeHTTP(out, r)
	if err != nil { // what the client has sent behind its body isn't for those who handle the error
		h.reserved.RemoveFrom(r.Trailer)
	}
	return err
}

// judge checks a request, and makes one of what a client has sent several times with the same value.
func (h *Handler) judge(r *http.Request) reason {
	if reason := checkHost(r); reason != inOrder {
		return reason
	}
	if !collapse(r.Header, "Content-Length") || !validLength(r.Header) {
		return contentLength
	}
	if !collapse(r.Header, "Content-Type") {
		return contentType
	}
	if inRequest(h.reserved, r) {
		return reservedHeader
	}
	return h.checkPath(r.URL)
}

// refuse answers a request that is not in order. It ends an HTTP/1 connection: where one message ends and the next one
// begins may not be what both sides think it is.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, why reason) error {
	rejected[why].Inc()
	if entry := h.logger.Check(zapcore.DebugLevel, "request refused"); entry != nil {
		entry.Write(zap.String("remote", r.RemoteAddr), zap.Stringer("reason", why))
	}
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	return caddyhttp.Error(http.StatusBadRequest, why.err())
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
