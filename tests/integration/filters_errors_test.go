package integration

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestErrorRoutesThatProxy: a request whose body filters have seen, and that ends with an error, goes on from an error route
// without a body, to Caddy's reverse proxy and ours.
func TestErrorRoutesThatProxy(t *testing.T) {
	l := newLab(t)
	pages, dead := l.newOrigin("pages"), l.freeAddr()
	stock, ours := l.freeAddr(), l.freeAddr()
	site := func(addr, handler string) string {
		return fmt.Sprintf(`
	http://%s {
		filters {
			request_body_limit 1KiB
			json_field model {
				header X-Model
			}
			branch none {
				on missing
				handle {
					error "which model?" 422
				}
				rejoin terminal
			}
		}
		cluster_proxy gone
		handle_errors {
			header X-Status {err.status_code}
			%s
		}
	}
	`, addr, handler)
	}
	l.run(`
	sluice {
		cluster gone {
			endpoints `+dead+`
		}
		cluster pages {
			endpoints `+pages.addr+`
		}
	}
	`, site(stock, "reverse_proxy "+pages.addr)+site(ours, "cluster_proxy pages"))
	for name, addr := range map[string]string{"reverse_proxy": stock, "cluster_proxy": ours} {
		for reason, tc := range map[string]struct{ body, status string }{
			"dead endpoint": {`{"model":"a"}`, "502"},
			"branch":        {`{"other":"a"}`, "422"},
			"refused":       {`{"model":"a","model":"b"}`, "400"},
			"too long":      {`{"model":"` + strings.Repeat("a", 2000) + `"}`, "413"},
		} {
			for length, sized := range map[string]bool{"sized": true, "chunked": false} {
				t.Run(name+" "+reason+" "+length, func(t *testing.T) {
					req, err := http.NewRequest(http.MethodPost, "http://"+addr+"/path", strings.NewReader(tc.body))
					if err != nil {
						t.Fatal(err)
					}
					req.Header.Set("Content-Type", "application/json")
					if !sized {
						req.ContentLength, req.Trailer = -1, http.Header{"X-Trailer": {"x"}}
					}
					res, err := freshClient().Do(req)
					if err != nil {
						t.Fatal(err)
					}
					defer res.Body.Close()
					body, err := io.ReadAll(res.Body)
					if string(body) != "pages /path " || err != nil || res.Header.Get("X-Status") != tc.status {
						t.Errorf("got %s after %q, %q, %v", res.Status, res.Header.Get("X-Status"), body, err)
					}
					for _, got := range pages.taken() {
						if got.Method != http.MethodPost || got.ContentLength != 0 || len(got.TransferEncoding) > 0 {
							t.Errorf("got %s with length %d and %q at the endpoint", got.Method, got.ContentLength, got.TransferEncoding)
						}
					}
				})
			}
		}
	}
}
