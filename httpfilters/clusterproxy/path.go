package clusterproxy

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// checkPath refuses a rewritten path that means something else than it says. One that the client has asked for is left to
// the endpoint.
func checkPath(r *http.Request) error {
	if err := judgePath(r.URL); err != nil && isRewritten(r) {
		return err
	}
	return nil
}

// isRewritten says whether the path of a request is another one than the client has asked for.
func isRewritten(r *http.Request) bool {
	original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	return !ok || original.URL == nil || original.URL.Path != r.URL.Path || original.URL.RawPath != r.URL.RawPath
}

// judgePath says what is wrong with a path, were it a rewritten one.
func judgePath(u *url.URL) error {
	switch path := u.Path; {
	case u.Opaque != "":
		return fmt.Errorf("rewritten to %q, which isn't a path", u.Opaque)
	case !strings.HasPrefix(path, "/"):
		return fmt.Errorf("rewritten to %q, which doesn't begin with a slash", path)
	case strings.HasPrefix(path, "//"):
		return fmt.Errorf("rewritten to %q, which begins with two slashes", path)
	case strings.Contains(path, "/../"), strings.HasSuffix(path, "/.."):
		return fmt.Errorf("rewritten to %q, which goes up", path)
	}
	return nil
}
