package healthchecks

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

func init() {
	caddy.RegisterModule(&GRPC{})
}

const (
	// grpcPath is the method of the health protocol that is called.
	grpcPath = "/grpc.health.v1.Health/Check"
	// grpcType is the media type of gRPC; a subtype may follow.
	grpcType = "application/grpc"
	// http2 is the protocol that an endpoint with TLS must agree to (RFC 9113 §3.3).
	http2 = "h2"
	// maxService is the longest name of a service, in bytes.
	maxService = 255
)

// GRPC is the check `grpc`: the endpoint says that it is serving, in gRPC's health protocol (grpc.health.v1). Without TLS
// it must speak HTTP/2 from the first byte on. Each check has a connection of its own.
type GRPC struct {
	Connection
	OptionalTLS

	// The name of the service to ask about. Up to 255 printable ASCII characters, no spaces. Default: none, which asks about
	// the server as a whole. Placeholders such as `{env.NAME}` are replaced at load.
	Service string `json:"service,omitempty"`

	// message is the call's message. It isn't changed.
	message []byte
}

// CaddyModule returns the Caddy module information.
func (*GRPC) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + ".grpc", New: func() caddy.Module { return new(GRPC) }}
}

// Provision checks the settings.
func (g *GRPC) Provision(caddy.Context) error {
	if err := g.Connection.check(); err != nil {
		return err
	}
	service, err := replace("service", g.Service)
	if err != nil {
		return err
	}
	if len(service) > maxService || strings.ContainsFunc(service, isUnprintable) {
		return fmt.Errorf("service: %q must have at most %d printable ASCII characters and no spaces", service, maxService)
	}
	g.message = encodeRequest(service)
	return g.load()
}

// isUnprintable says whether a character is no printable ASCII, or a space.
func isUnprintable(c rune) bool { return c <= ' ' || c >= 0x7f }

// Check calls the health service.
func (g *GRPC) Check(ctx context.Context, target *Target) error {
	return g.run(ctx, target, func(conn net.Conn) error {
		secured, err := g.begin(ctx, conn, target, http2)
		if err != nil {
			return err
		}
		if err := agreed(secured); err != nil {
			return err
		}
		return g.call(ctx, secured, g.request(target))
	})
}

// request makes the call for a target.
func (g *GRPC) request(target *Target) *http.Request {
	scheme := "http"
	if g.on(target) {
		scheme = "https"
	}
	return &http.Request{
		Method: http.MethodPost, URL: &url.URL{Scheme: scheme, Host: g.authority(target), Path: grpcPath},
		Header: http.Header{"Content-Type": {grpcType}, "Te": {"trailers"}, "User-Agent": {userAgent}},
		Body:   io.NopCloser(bytes.NewReader(g.message)), ContentLength: int64(len(g.message)),
	}
}

// call makes the call on a connection, and judges the answer.
func (g *GRPC) call(ctx context.Context, conn net.Conn, request *http.Request) error {
	client, err := newHTTP2(ctx, conn, request.URL)
	if err != nil {
		return err
	}
	defer client.Close()
	response, err := client.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return brief(err)
	}
	defer response.Body.Close()
	kind := response.Header.Get("Content-Type")
	switch {
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("got status %d, expected 200", response.StatusCode)
	case !strings.HasPrefix(kind, grpcType):
		return fmt.Errorf("got an answer of type %s, want %s", quote(kind), grpcType)
	}
	// One byte more than there may be, so that the decoder sees that there is too much.
	body, err := io.ReadAll(io.LimitReader(response.Body, maxMessage+1))
	if err != nil {
		return fmt.Errorf("reading answer: %w", brief(err))
	}
	if len(body) > maxMessage {
		return fmt.Errorf("the answer is longer than %d bytes", maxMessage)
	}
	return judge(response, body)
}

// judge says what an answer that was read to its end means.
func judge(response *http.Response, body []byte) error {
	fields := response.Trailer
	if len(body) == 0 && fields.Get("Grpc-Status") == "" {
		fields = response.Header // an answer without messages may be all header
	}
	switch status := fields.Get("Grpc-Status"); {
	case status == "":
		return errors.New("the answer has no grpc-status")
	case status != "0":
		return fmt.Errorf("got grpc-status %s: %s", quote(status), quote(fields.Get("Grpc-Message")))
	}
	serving, err := decodeResponse(body)
	switch {
	case err != nil:
		return fmt.Errorf("decoding answer: %w", err)
	case serving != statusServing:
		return fmt.Errorf("the service is not serving: status %d", serving)
	}
	return nil
}

// agreed refuses a connection with TLS on which nobody has agreed to HTTP/2.
func agreed(conn net.Conn) error {
	secured, ok := conn.(interface{ ConnectionState() tls.ConnectionState })
	if ok && secured.ConnectionState().NegotiatedProtocol != http2 {
		return errors.New("TLS handshake: the endpoint did not agree to HTTP/2")
	}
	return nil
}

// newHTTP2 begins HTTP/2 on a connection that is ready for it.
func newHTTP2(ctx context.Context, conn net.Conn, to *url.URL) (*http.ClientConn, error) {
	ready := func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	transport := &http.Transport{
		DialContext: ready, DialTLSContext: ready, Protocols: new(http.Protocols),
		DisableCompression: true, MaxResponseHeaderBytes: maxHead,
	}
	transport.Protocols.SetHTTP2(to.Scheme == "https")
	transport.Protocols.SetUnencryptedHTTP2(to.Scheme == "http")
	return transport.NewClientConn(ctx, to.Scheme, to.Host)
}

// Interface guards
var (
	_ caddy.Provisioner = (*GRPC)(nil)
	_ Checker           = (*GRPC)(nil)
)
