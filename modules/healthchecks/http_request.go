package healthchecks

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// ownFields are the header fields that are not for `headers`: the check sets them, or they would change what the rest of
// the request means.
var ownFields = []string{"Host", "Connection", "Content-Length", "Transfer-Encoding", "Trailer", "Expect"}

// setRequest prepares what requests are made of.
func (h *HTTP) setRequest() error {
	if h.Method == "" {
		h.Method = http.MethodGet
	}
	if !httpguts.ValidHeaderFieldName(h.Method) || h.Method == http.MethodConnect { // a token, as methods are
		return fmt.Errorf("method: %q is not the name of a method, or is CONNECT", h.Method)
	}
	if upper := strings.ToUpper(h.Method); upper != h.Method { // to servers it is a method that they don't know
		return fmt.Errorf("method: %q must be in capital letters: write %s", h.Method, upper)
	}
	if err := h.setHost(); err != nil {
		return err
	}
	if err := h.setHeader(); err != nil {
		return err
	}
	path, err := replace("path", h.Path)
	if err != nil {
		return err
	}
	if err := h.setURL(path); err != nil {
		return fmt.Errorf("path: %w", err)
	}
	return nil
}

// setURL prepares the URL of requests for a path.
func (h *HTTP) setURL(path string) error {
	switch {
	case path == "":
		return errors.New("is required")
	case path[0] != '/':
		return fmt.Errorf("%q must begin with /", path)
	case strings.Contains(path, "#"):
		return fmt.Errorf("%q must have no fragment", path)
	}
	parsed, err := url.ParseRequestURI(path)
	if err != nil {
		return fmt.Errorf("%q: %w", path, errors.Unwrap(err))
	}
	query, err := url.QueryUnescape(parsed.RawQuery)
	if err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	if strings.ContainsFunc(parsed.Path+query, isControl) {
		return fmt.Errorf("%q must have no control characters", path)
	}
	h.url = *parsed
	return nil
}

// isControl says whether a character is one of ASCII's control characters.
func isControl(c rune) bool { return c < ' ' || c == 0x7f }

// setHost prepares the Host of requests.
func (h *HTTP) setHost() (err error) {
	if h.host, err = replace("host", h.Host); err != nil {
		return err
	}
	if !httpguts.ValidHostHeader(h.host) {
		return fmt.Errorf("host: %q is no host", h.host)
	}
	return nil
}

// setHeader prepares the header of requests.
func (h *HTTP) setHeader() (err error) {
	h.header = http.Header{"User-Agent": {userAgent}}
	for name, values := range h.Headers {
		canonical := http.CanonicalHeaderKey(name)
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("headers: %q is not the name of a header field", name)
		}
		if slices.Contains(ownFields, canonical) {
			return fmt.Errorf("headers: %s is set by the check", canonical)
		}
		if values, err = replaceAll("headers: "+canonical, values); err != nil {
			return err
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return fmt.Errorf("headers: %s: %q is not the value of a header field", canonical, value)
			}
		}
		h.header[canonical] = values
	}
	return nil
}

// request makes the request for a target.
func (h *HTTP) request(target *Target) *http.Request {
	to := h.url
	to.Scheme, to.Host = "http", h.authority(target)
	return &http.Request{
		Method: h.Method, URL: &to, Host: h.host, Header: h.header, Close: true,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
}
