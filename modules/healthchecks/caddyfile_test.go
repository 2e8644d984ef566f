package healthchecks

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// TestCaddyfile reads every option of every check, and what comes of it in JSON.
func TestCaddyfile(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"tcp", "tcp", `{}`},
		{"tcp_empty", "tcp {\n}", `{}`},
		{"tcp_all", "tcp {\n port 9000\n}", `{"port":9000}`},
		{"tls", "tls", `{}`},
		{
			"tls_all", "tls {\n port 65535\n proxy_protocol v1\n server_name a.test\n ca_file a.pem b.pem\n verify\n alpn h2 mqtt\n}",
			`{"port":65535,"proxy_protocol":"v1","server_name":"a.test","ca_file":["a.pem","b.pem"],"verify":true,"alpn":["h2","mqtt"]}`,
		},
		{"http", "http /healthz", `{"path":"/healthz"}`},
		{
			"http_all", "http /healthz?full {\n port 1\n proxy_protocol off\n tls\n server_name a.test\n ca_file a.pem\n verify\n method HEAD\n" +
				" host b.test\n header X-A 1\n header x-a \"2 3\"\n header B c\n expect_status 2xx 301 400-403\n expect_body ^ok$\n}",
			`{"port":1,"proxy_protocol":"off","tls":true,"server_name":"a.test","ca_file":["a.pem"],"verify":true,"path":"/healthz?full",` +
				`"method":"HEAD","host":"b.test","headers":{"B":["c"],"X-A":["1","2 3"]},"expect_status":["2xx","301","400-403"],"expect_body":"^ok$"}`,
		},
		{"http_tls_off", "http / {\n tls off\n}", `{"tls":false,"path":"/"}`},
		{"grpc", "grpc", `{}`},
		{"grpc_service", "grpc a.B", `{"service":"a.B"}`},
		{
			"grpc_all", "grpc a.B {\n port 1\n proxy_protocol v2\n tls off\n server_name a.test\n ca_file a.pem\n verify\n}",
			`{"port":1,"proxy_protocol":"v2","tls":false,"server_name":"a.test","ca_file":["a.pem"],"verify":true,"service":"a.B"}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			module, err := unmarshal(t, tc.text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(module)
			if err != nil || string(got) != tc.want {
				t.Fatalf("got %s, %v, want %s", got, err, tc.want)
			}
			back := reflect.New(reflect.TypeOf(module).Elem()).Interface()
			if err := caddy.StrictUnmarshalJSON(got, back); err != nil || !reflect.DeepEqual(back, module) {
				t.Errorf("got %+v, %v back from JSON, want %+v", back, err, module)
			}
		})
	}
}

// TestCaddyfileErrors checks that each error says what is wrong, and where.
func TestCaddyfileErrors(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"tcp 9000", `tcp takes no argument, got "9000", at Testfile:1`},
		{"tcp {\n send x\n}", `unrecognized option "send": expected port, at Testfile:2`},
		{"tcp {\n port 1\n port 2\n}", "port is given twice, at Testfile:3"},
		{"tcp {\n port 0\n}", `port: "0" is not a positive number, at Testfile:2`},
		{"tcp {\n port 65536\n}", "port: 65536 is out of range, 1 to 65535, at Testfile:2"},
		{"tls a.test", `tls takes no argument, got "a.test", at Testfile:1`},
		{"tls {\n host a.test\n}", `unrecognized option "host": expected one of port, proxy_protocol, server_name, ca_file, verify, alpn, at Testfile:2`},
		{"tls {\n verify yes\n}", `verify takes no argument, got "yes", at Testfile:2`},
		{"tls {\n ca_file\n}", "ca_file needs at least one argument, at Testfile:2"},
		{"tls {\n alpn\n}", "alpn needs at least one argument, at Testfile:2"},
		{"tls {\n alpn h2\n alpn mqtt\n}", "alpn is given twice, at Testfile:3"},
		{"tls {\n server_name\n}", "server_name needs an argument, at Testfile:2"},
		{"tls {\n tls\n}", `unrecognized option "tls"`},
		{"http", "health http needs a path, such as /healthz, at Testfile:1"},
		{"http /a /b", `http takes one argument, got also "/b", at Testfile:1`},
		{"http / {\n uri /x\n}", `unrecognized option "uri": expected one of port, proxy_protocol, tls`},
		{"http / {\n header X\n}", "header needs a name and a value, got 1 arguments, at Testfile:2"},
		{"http / {\n header X y z\n}", "header needs a name and a value, got 3 arguments, at Testfile:2"},
		{"http / {\n tls on\n}", `tls takes no argument but off, got "on", at Testfile:2`},
		{"http / {\n tls off on\n}", `tls takes one argument, got also "on", at Testfile:2`},
		{"http / {\n method\n}", "method needs an argument, at Testfile:2"},
		{"http / {\n host a b\n}", `host takes one argument, got also "b", at Testfile:2`},
		{"http / {\n expect_status\n}", "expect_status needs at least one argument, at Testfile:2"},
		{"http / {\n expect_body a b\n}", `expect_body takes one argument, got also "b", at Testfile:2`},
		{"http / {\n proxy_protocol\n}", "proxy_protocol needs an argument, at Testfile:2"},
		{"http / {\n verify\n verify\n}", "verify is given twice, at Testfile:3"},
		{"grpc a b", `grpc takes one argument, got also "b", at Testfile:1`},
		{"grpc {\n service a\n}", `unrecognized option "service": expected one of port, proxy_protocol, tls, server_name, ca_file, verify, at Testfile:2`},
		{"grpc {\n port x\n}", `port: "x" is not a positive number, at Testfile:2`},
	} {
		t.Run(tc.text, func(t *testing.T) {
			if _, err := unmarshal(t, tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// unmarshal reads a check from its Caddyfile.
func unmarshal(t *testing.T, text string) (any, error) {
	t.Helper()
	name := strings.Fields(text)[0]
	info, err := caddy.GetModule(Namespace + "." + name)
	if err != nil {
		t.Fatal(err)
	}
	module := info.New()
	return module, module.(caddyfile.Unmarshaler).UnmarshalCaddyfile(caddyfile.NewTestDispenser(text))
}
