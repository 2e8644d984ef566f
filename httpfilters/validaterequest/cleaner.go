package validaterequest

import (
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/modules/reserved"
)

// cleaner removes reserved headers from an answer before they go out: from each informational one, from the final one, and
// from its trailers.
type cleaner struct {
	caddyhttp.ResponseWriterWrapper
	reserved reserved.Names
	// sent says that the final header is out.
	sent bool
}

// clean removes what is reserved. After the header only trailers can still go out.
func (c *cleaner) clean() { removeFrom(c.reserved, c.Header()) }

// begin comes before the header goes out by itself.
func (c *cleaner) begin() {
	if !c.sent {
		c.sent = true
		c.clean()
	}
}

// WriteHeader sends a header, cleaned.
func (c *cleaner) WriteHeader(status int) {
	if !c.sent {
		c.sent = status >= http.StatusOK || status == http.StatusSwitchingProtocols
		c.clean()
	}
	c.ResponseWriterWrapper.WriteHeader(status)
}

// Write writes to the body.
func (c *cleaner) Write(p []byte) (int, error) {
	c.begin()
	return c.ResponseWriterWrapper.Write(p)
}

// ReadFrom copies to the body, by the fastest way there is.
func (c *cleaner) ReadFrom(r io.Reader) (int64, error) {
	c.begin()
	return c.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError sends what is there.
func (c *cleaner) FlushError() error {
	c.begin()
	return http.NewResponseController(c.ResponseWriter).Flush()
}

// Interface guards
var (
	_ io.ReaderFrom                             = (*cleaner)(nil)
	_ interface{ FlushError() error }           = (*cleaner)(nil)
	_ interface{ Unwrap() http.ResponseWriter } = (*cleaner)(nil)
)
