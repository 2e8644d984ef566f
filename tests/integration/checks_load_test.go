package integration

import (
	"fmt"
	"strings"
	"testing"
)

// l4Config is a layer4 app with a server on this address and these handlers in its only route.
func l4Config(listen, handlers string) string {
	return fmt.Sprintf(`"layer4":{"servers":{"edge":{"listen":[%q],"routes":[{"handle":[%s]}]}}}`, listen, handlers)
}

// TestRefusedAtLoad has configs that can't do what they say. The error names the server, the route and the handler.
func TestRefusedAtLoad(t *testing.T) {
	newLab(t)
	const (
		tcp     = "127.0.0.1:8443"
		proxied = `{"handler":"preread","proxy_protocol":{"from":["10.0.0.0/8"]}}`
		relay   = `{"handler":"forward","upstream":"127.0.0.1:9","proxy_protocol":"relay"}`
	)
	for _, tc := range []struct{ name, config, want string }{
		{"Z126_udp", l4Config("udp/"+tcp, to), "forward is for streams … \"edge\" … udp/"},
		{"D38_proxy_header_on_udp", l4Config("udp/"+tcp, proxied+","+to), "preread is for streams … \"edge\" … udp/"},
		{"D35_no_list", l4Config(tcp, `{"handler":"preread","proxy_protocol":{}},`+to), "proxy_protocol.from: must name the peers"},
		{"D35_empty_list", l4Config(tcp, `{"handler":"preread","proxy_protocol":{"from":[]}},`+to), "proxy_protocol.from: must name the peers"},
		{"relay_without_header", l4Config(tcp, relay), `"edge": routes[0]: forward: proxy_protocol relay`},
		{
			"relay_in_a_branch", l4Config(tcp, `{"handler":"preread"},`+sniRouter(`"routes":[{"names":["a.test"],"handle":[`+to+`]},{"names":["b.test"],"handle":[`+relay+`]}]`)),
			`"edge": routes[0]: sni_router: routes[1]: forward: proxy_protocol relay`,
		},
		{
			"acl_before_the_header", l4Config(tcp, `{"handler":"ip_acl","allow":["10.0.0.0/8"]},`+proxied+","+relay),
			`"edge": routes[0]: preread: proxy_protocol: ip_acl stands before it`,
		},
		{
			"limit_before_the_header", l4Config(tcp, `{"handler":"admission","max_connections_per_ip":5},`+proxied+","+relay),
			`"edge": routes[0]: preread: proxy_protocol: admission with max_connections_per_ip stands before it`,
		},
		{"header_read_twice", l4Config(tcp, `{"handler":"proxy_protocol"},`+proxied+","+to), `"edge": routes[0]: preread: proxy_protocol: the header would be read twice`},
	} {
		t.Run(tc.name, func(t *testing.T) { checkError(t, validateApps(t, tc.config), tc.want) })
	}
}

// TestAcceptedAtLoad has configs that are much like the refused ones.
func TestAcceptedAtLoad(t *testing.T) {
	newLab(t)
	const (
		tcp     = "127.0.0.1:8443"
		proxied = `{"handler":"preread","proxy_protocol":{"from":["10.0.0.0/8"]}}`
		acl     = `{"handler":"ip_acl","allow":["10.0.0.0/8"]}`
		limits  = `{"handler":"admission","max_connections":5,"max_connections_per_ip":5}`
		relay   = `{"handler":"forward","upstream":"127.0.0.1:9","proxy_protocol":"relay"}`
	)
	for name, handlers := range map[string]string{
		"relay_behind_the_header": proxied + "," + relay,
		"acl_behind_the_header":   proxied + "," + acl + "," + limits + "," + relay,
		"acl_without_headers":     acl + "," + limits + `,{"handler":"preread"},` + to,
		"limit_of_the_listener":   `{"handler":"admission","max_connections":5},` + proxied + "," + relay,
		"stock_reader":            `{"handler":"proxy_protocol"},{"handler":"preread"},` + to,
	} {
		t.Run(name, func(t *testing.T) {
			if err := validateApps(t, l4Config(tcp, handlers)); err != nil {
				t.Errorf("got error %v, want none", err)
			}
		})
	}
}

// TestFilterApartIsWarnedAbout loads a config whose filter is in another route than forward.
func TestFilterApartIsWarnedAbout(t *testing.T) {
	l := newLab(t)
	warnings := func() []logRecord {
		return records.find(func(r logRecord) bool { return strings.Contains(r.Msg, "filters and forward belong in one route") })
	}
	p := l.startServer("route {\n preread\n}\nroute {\n" + routes(l.digester("apart"), "") + "\n}")
	found := warnings()
	if len(found) != 1 || found[0].Level != "warn" || !strings.Contains(found[0].Line, `"server":"srv0"`) ||
		!strings.Contains(found[0].Line, `"route":0,"handler":"preread"`) {
		t.Errorf("got %v, want one warning with the server, the route and the handler", found)
	}
	hello := named("known.test")
	p.expectAnswer(digest("apart", hello), hello)
	records.reset()
	if err := p.route("preread\n" + routes(l.digester("together"), "")); err != nil {
		t.Fatal(err)
	}
	if found := warnings(); len(found) > 0 {
		t.Errorf("got %v, want no warning", found)
	}
}
