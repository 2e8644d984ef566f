package healthchecks

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-sluice/sluice/internal/health"
)

func init() {
	caddy.RegisterModule(&HTTP{})
}

const (
	// userAgent is how checks call themselves.
	userAgent = "Caddy-Sluice"
	// maxHead is how many bytes the head of an answer may have, those of interim answers included.
	maxHead = 64 << 10
	// maxBody is how much of a body `expect_body` looks at, in bytes.
	maxBody = 64 << 10
)

// HTTP is the check `http`: the endpoint answers a request with a status that is expected. Each check is HTTP/1.1 on a
// connection of its own. Redirects are answers like others: they are not followed.
type HTTP struct {
	Connection
	OptionalTLS

	// The path to ask for, with a query if need be. It begins with `/`, and has no fragment and no control characters, not
	// in percent-encoding either. Required. Placeholders such as `{env.NAME}` are replaced at load.
	Path string `json:"path,omitempty"`

	// The method, any but CONNECT, in capital letters. Default: `GET`. No placeholders.
	Method string `json:"method,omitempty"`

	// The Host of the request. Default: the address that is checked, `localhost` for a unix socket. Placeholders such as
	// `{env.NAME}` are replaced at load.
	Host string `json:"host,omitempty"`

	// More header fields of the request, but those that the check sets itself. Default: none but a User-Agent.
	// Placeholders such as `{env.NAME}` are replaced in values at load.
	Headers http.Header `json:"headers,omitempty"`

	// The statuses to expect, from 100 to 599: codes such as `204`, classes such as `2xx`, ranges such as `200-399`.
	// Default: `2xx`. No placeholders.
	ExpectStatus []string `json:"expect_status,omitempty"`

	// A regular expression (RE2) that must match somewhere in the first 64 KiB of the body. Default: none, the body isn't
	// read. No placeholders.
	ExpectBody string `json:"expect_body,omitempty"`

	url      url.URL
	host     string
	header   http.Header
	statuses health.StatusSet
	// expected are the statuses as they were written.
	expected string
	body     *regexp.Regexp
}

// CaddyModule returns the Caddy module information.
func (*HTTP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + ".http", New: func() caddy.Module { return new(HTTP) }}
}

// Provision checks the settings.
func (h *HTTP) Provision(caddy.Context) error {
	for _, step := range []func() error{h.Connection.check, h.OptionalTLS.load, h.setRequest, h.setExpectation} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// setExpectation prepares what answers are compared with.
func (h *HTTP) setExpectation() (err error) {
	expected := h.ExpectStatus
	if len(expected) == 0 {
		expected = []string{"2xx"}
	}
	if h.statuses, err = health.ParseStatuses(expected); err != nil {
		return fmt.Errorf("expect_status%w", err)
	}
	h.expected = strings.Join(expected, " ")
	if h.ExpectBody == "" {
		return nil
	}
	if h.Method == http.MethodHead {
		return errors.New("expect_body: an answer to HEAD has no body")
	}
	if h.body, err = regexp.Compile(h.ExpectBody); err != nil {
		return fmt.Errorf("expect_body: %w", err)
	}
	return nil
}

// Check asks for the path.
func (h *HTTP) Check(ctx context.Context, target *Target) error {
	return h.run(ctx, target, func(conn net.Conn) error {
		conn, err := h.begin(ctx, conn, target, "http/1.1")
		if err != nil {
			return err
		}
		return h.exchange(conn, h.request(target))
	})
}

// exchange sends a request and judges the answer.
func (h *HTTP) exchange(conn net.Conn, request *http.Request) error {
	if err := request.Write(conn); err != nil {
		return fmt.Errorf("writing request: %w", err)
	}
	limited := &io.LimitedReader{R: conn, N: maxHead}
	response, err := readHead(bufio.NewReader(limited), request) //nolint:bodyclose // closing it would read the rest of the body
	switch {
	case err != nil && limited.N == 0:
		return fmt.Errorf("reading answer: its head is longer than %d bytes", maxHead)
	case err != nil:
		return fmt.Errorf("reading answer: %w", brief(err))
	case !h.statuses.Has(response.StatusCode):
		return fmt.Errorf("got status %d, expected %s", response.StatusCode, h.expected)
	case h.body == nil:
		return nil
	}
	limited.N = math.MaxInt64 // the body has a limit of its own
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return fmt.Errorf("reading body: %w", brief(err))
	}
	if !h.body.Match(body) {
		return fmt.Errorf("the body does not match %q", h.ExpectBody)
	}
	return nil
}

// readHead reads the head of the final answer: interim ones before it (RFC 9110 §15.2) are passed over, but for a switch
// to another protocol, which is final.
func readHead(reader *bufio.Reader, request *http.Request) (*http.Response, error) {
	for {
		response, err := http.ReadResponse(reader, request)
		if err != nil || response.StatusCode >= 200 || response.StatusCode == http.StatusSwitchingProtocols {
			return response, err
		}
	}
}

// brief cuts the text of an error that quotes what an endpoint has sent.
func brief(err error) error {
	text := err.Error()
	if len(text) <= maxQuote {
		return err
	}
	return errors.New(text[:maxQuote] + "...")
}

// Interface guards
var (
	_ caddy.Provisioner = (*HTTP)(nil)
	_ Checker           = (*HTTP)(nil)
)
