package clusterproxy

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-sluice/sluice/modules/balancers"
)

// keyText returns what the cluster chooses an endpoint by; it is empty if the request doesn't have it.
func keyText(r *http.Request, key balancers.Key) string {
	switch key.Source {
	case balancers.ClientIP:
		ip, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
		return ip
	case balancers.SNI:
		if r.TLS == nil {
			return ""
		}
		return r.TLS.ServerName
	case balancers.Header:
		if key.Name == "Host" {
			return r.Host
		}
		return r.Header.Get(key.Name)
	case balancers.Cookie:
		cookie, err := r.Cookie(key.Name)
		if err != nil {
			return ""
		}
		return cookie.Value
	case balancers.URI:
		return r.URL.RequestURI()
	case balancers.QueryParameter:
		return r.URL.Query().Get(key.Name)
	case balancers.Placeholder:
		repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		return repl.ReplaceAll(key.Name, "")
	}
	return ""
}
