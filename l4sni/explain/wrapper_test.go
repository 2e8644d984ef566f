package explain

import (
	"bytes"
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
)

// TestHeaderOnly asks about connections behind a preread that reads PROXY headers and no hello, which the router then
// reads.
func TestHeaderOnly(t *testing.T) {
	const config = `{"apps":{"layer4":{"servers":{"l":{"listen":[":2"],"routes":[{"handle":[
		{"handler":"preread","proxy_protocol":{"from":["10.0.0.0/8"]},"hello":"off"},
		{"handler":"sni_router","routes":[{"names":["a.test"],"handle":[{"handler":"forward","upstream":"b:1"}]}]}]}]}}}}}`
	askWithHeaders(t, config)
	for _, wrong := range []string{`"hello":"no"`, `"hello":"off","timeout":"1ns"`} {
		_, err := run(nil, "--config", writeFile(t, "wrong.json", []byte(strings.Replace(config, `"hello":"off"`, wrong, 1))), "--name", "a.test")
		if err == nil || !strings.Contains(err.Error(), "apps.layer4.servers.l.routes[0].handle[0]: ") {
			t.Errorf("%s: got error %v, want one about the preread", wrong, err)
		}
	}
}

// TestWrapperHeader asks about connections under a listener wrapper that reads PROXY headers.
func TestWrapperHeader(t *testing.T) {
	const config = `{"apps":{"http":{"servers":{"h":{"listen":[":2"],"listener_wrappers":[{"wrapper":"sluice",
		"proxy_protocol":{"from":["10.0.0.0/8"]},
		"routes":[{"handle":[{"handler":"sni_router","routes":[{"names":["a.test"],"handle":[{"handler":"forward","upstream":"b:1"}]}]}]}]}]}}}}}`
	askWithHeaders(t, config)
	wrong := strings.Replace(config, `["10.0.0.0/8"]`, `[]`, 1)
	_, err := run(nil, "--config", writeFile(t, "wrong.json", []byte(wrong)), "--name", "a.test")
	if err == nil || !strings.Contains(err.Error(), "apps.http.servers.h.listener_wrappers[0]: proxy_protocol.from: must name") {
		t.Errorf("got error %v, want one about proxy_protocol.from", err)
	}
}

// TestWrapperBehindTLS asks about servers whose wrapper gets connections without their TLS, and about others.
func TestWrapperBehindTLS(t *testing.T) {
	const ended = "apps.http.servers.h.listener_wrappers[0].routes[0].handle[0]: TLS is ended before this wrapper sees the connection"
	for _, tc := range []struct {
		app, server string // fields of the HTTP app and of the server
		behind      string // wrappers
		want        string
	}{
		{``, `"listen":[":443"]`, ``, ended},
		{``, `"listen":[":443"]`, `,{"wrapper":"tls"}`, "→ forward b:1"},
		{``, `"listen":[":443"]`, `,{"wrapper":"other"}`, ended},
		{``, `"listen":[":443"]`, `,{"wrapper":"other"},{"wrapper":"tls"}`, "→ forward b:1"},
		{``, `"listen":[":443"],"automatic_https":{"disable":true}`, ``, "→ forward b:1"},
		{``, `"listen":[":443"],"automatic_https":{"disable":true},"tls_connection_policies":[{}]`, ``, ended},
		{`"https_port":2,`, `"listen":[":2"]`, ``, ended},
		{`"http_port":2,`, `"listen":[":2"],"tls_connection_policies":[{}]`, ``, "→ forward b:1"},
		{``, `"listen":[":2"]`, ``, "→ forward b:1"},
		{``, `"listen":[":2"],"tls_connection_policies":[{}]`, ``, ended},
		{``, `"listen":[":2"],"routes":[{"match":[{"host":["www.test"]}]}]`, ``, ended},
		{``, `"listen":[":2"],"routes":[{"match":[{"host":["www.test"]}]}],"automatic_https":{"skip":["www.test"]}`, ``, "→ forward b:1"},
		{``, `"listen":[":2"],"routes":[{"match":[{"path":["/"]}]}]`, ``, "→ forward b:1"},
		{``, `"listen":[":80"],"routes":[{"match":[{"host":["www.test"]}]}]`, ``, "→ forward b:1"},
		{``, `"listen":[":2-1"]`, ``, "apps.http.servers.h: listen: "},
	} {
		t.Run(tc.app+tc.server+tc.behind, func(t *testing.T) {
			config := `{"apps":{"http":{` + tc.app + `"servers":{"h":{` + tc.server + `,"listener_wrappers":[{"wrapper":"sluice","routes":[{"handle":[
				{"handler":"sni_router","routes":[{"names":["a.test"],"handle":[{"handler":"forward","upstream":"b:1"}]}]}]}]}` + tc.behind + `]}}}}}`
			out, err := run(nil, "--config", writeFile(t, "caddy.json", []byte(config)), "--name", "a.test")
			if err != nil {
				out = err.Error()
			}
			if !strings.Contains(out, tc.want) {
				t.Errorf("got %q, want %q", out, tc.want)
			}
		})
	}
}

// askWithHeaders asks a config, in which 10.0.0.0/8 sends PROXY headers, about connections with and without one.
func askWithHeaders(t *testing.T, config string) {
	t.Helper()
	hello := hellos.New(hellos.Options{ServerName: "a.test"})
	v1 := []byte("PROXY TCP4 192.0.2.7 198.51.100.1 4321 443\r\n")
	for _, tc := range []struct {
		name, peer string
		bytes      []byte
		want       string
	}{
		{"header", "10.0.0.1", append(bytes.Clone(v1), hello...), "→ forward b:1"},
		{"peer_not_known", "", append(bytes.Clone(v1), hello...), "→ forward b:1"},
		{"none_from_others", "192.0.2.1", hello, "→ forward b:1"},
		{"header_from_others", "192.0.2.1", append(bytes.Clone(v1), hello...), "not_tls"},
		{"missing", "10.0.0.1", hello, "closes the connection: the peer must send a PROXY header"},
		{"half", "10.0.0.1", v1[:20], "waits for the rest of the PROXY header"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := []string{"--config", writeFile(t, "caddy.json", []byte(config)), "--hello", "-"}
			if tc.peer != "" {
				args = append(args, "--peer", tc.peer)
			}
			if out, err := run(tc.bytes, args...); !strings.Contains(out, tc.want) {
				t.Errorf("got %q, %v, want %q", out, err, tc.want)
			}
		})
	}
}
