package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/mholt/caddy-l4/layer4"

	_ "github.com/caddy-sluice/sluice/httpfilters/clusterproxy"
	_ "github.com/caddy-sluice/sluice/httpfilters/jsonfield"
	"github.com/caddy-sluice/sluice/internal/testkit/hellos"
	_ "github.com/caddy-sluice/sluice/l4filters/accesslog"
	_ "github.com/caddy-sluice/sluice/l4filters/admission"
	_ "github.com/caddy-sluice/sluice/l4filters/forward"
	_ "github.com/caddy-sluice/sluice/l4filters/next"
	_ "github.com/caddy-sluice/sluice/l4sni/listener"
	_ "github.com/caddy-sluice/sluice/modules/balancers"
	_ "github.com/caddy-sluice/sluice/modules/healthchecks"
)

var update = flag.Bool("update", false, "write the golden files")

// asCaddy is the variable with which the test program is caddy itself.
const asCaddy = "SLUICE_TEST_AS_CADDY"

func TestMain(m *testing.M) {
	if err := os.Setenv("SLUICE_TEST_UPSTREAM", "10.0.0.9"); err != nil { // testdata/Caddyfile uses it
		panic(err)
	}
	if os.Getenv(asCaddy) != "" {
		caddycmd.Main()
		return
	}
	os.Exit(m.Run())
}

// run runs the command in this process.
func run(stdin []byte, args ...string) (stdout string, err error) {
	var out bytes.Buffer
	cmd := newCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	cmd.SetIn(bytes.NewReader(stdin))
	cmd.SetOut(&out)
	err = cmd.Execute()
	return out.String(), err
}

// writeFile makes a file and returns its name.
func writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// questions are asked about testdata/Caddyfile. The answers are in testdata/answers.txt; go test -update writes it.
var questions = []struct {
	args   string
	stdin  []byte
	closed bool
}{
	{args: "--listen :443 --name kube.example.com --alpn h2,http/1.1"},
	{args: "--listen :443 --name KUBE.example.com. --alpn http/1.1 --ech"},
	{args: "--listen :443 --name kube.example.com"},
	{args: "--listen :443 --name a.example.com --alpn h2"},
	{args: "--listen :443 --name a.b.example.com"},
	{args: "--listen :443 --name bücher.example"},
	{args: "--listen 10.0.0.1:8443 --name x.imap.example --alpn pop3,imap"},
	{args: "--listen :443 --name imap.example --alpn pop3", closed: true},
	{args: "--listen :443 --name imap.example", closed: true},
	{args: "--listen :443 --name other.example", closed: true},
	{args: "--listen :443 --name= --alpn h2", closed: true},
	{args: "--listen :443 --name 192.0.2.1", closed: true},
	{args: "--listen :443 --name= --ech", closed: true},
	{args: "--listen :443 --hello -", stdin: []byte("GET / HTTP/1.1\r\n")},
	{args: "--listen :443 --hello -", stdin: []byte("16 03 01 40 01"), closed: true},
	{args: "--listen :443 --hello -", stdin: []byte("16 03 01 00 01 02"), closed: true},
	{args: "--listen :443 --hello -", stdin: hellos.Find("chromium-156").Bytes[:1000]},
	{args: "--listen :443 --hello -", stdin: hellos.New(hellos.Options{Pad: 5000})[:200]},
	{args: "--listen :443 --hello -", stdin: hellos.New(hellos.Options{Pad: 5000}), closed: true},
	{args: "--listen :443 --hello -", stdin: nil},
	{args: "--listen :443 --hello -", stdin: []byte("PROXY TCP4 10.9.9.9")},
	{args: "--listen :443 --hello -", stdin: append([]byte("PROXY TCP4 10.9.9.9 10.0.0.1 1 2\r\n"), hellos.Find("curl-7.88-h2").Bytes...)},
	{args: "--listen :443 --hello - --peer 10.1.1.1", stdin: hellos.Find("curl-7.88-h2").Bytes, closed: true},
	{args: "--listen :443 --hello - --peer 192.0.2.1", stdin: hellos.Find("curl-7.88-h2").Bytes},
	{args: "--listen :9443 --name a.test"},
	{args: "--listen :9443 --name b.test", closed: true},
	{args: "--listen :9443 --name= --alpn h2"},
	{args: "--listen :10443 --name pass.test"},
	{args: "--listen :10443 --name www.test"},
	{args: "--listen :10443 --hello -", stdin: hellos.New(hellos.Options{ServerName: "\x1b[31m\u009b", ALPN: []string{"\x1b[31m\xff"}})},
	{args: "--name www.test --json", closed: true},
	{args: "--listen :443 --name kube.example.com --alpn h2 --json"},
	{args: "--listen :10443 --json --hello -", stdin: hellos.New(hellos.Options{ServerName: "\x1b\u009b😀", ALPN: []string{"\x1b\xff"}})},
}

func TestAnswers(t *testing.T) {
	var got strings.Builder
	for _, q := range questions {
		args := append([]string{"--config", "testdata/Caddyfile"}, strings.Fields(q.args)...)
		out, err := run(q.stdin, args...)
		if want := map[bool]error{true: errClosed}[q.closed]; err != want {
			t.Errorf("%s: got error %v, want %v", q.args, err, want)
		}
		if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && r != '→' && (r < ' ' || r > '~') }); i >= 0 {
			t.Errorf("%s: got %q, want nothing that a terminal obeys", q.args, out[i:])
		}
		if strings.Contains(q.args, "--json") && !json.Valid([]byte(out)) {
			t.Errorf("%s: got invalid JSON", q.args)
		}
		fmt.Fprintf(&got, "$ %s", q.args)
		if q.stdin != nil {
			fmt.Fprintf(&got, "  # %d bytes, %.20q", len(q.stdin), q.stdin)
		}
		fmt.Fprintf(&got, "\n%s\n", out)
	}
	const golden = "testdata/answers.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the answers are not those in %s, but\n%s", golden, got.String())
	}
}

// TestAnswersInJSON reads the answer as a program would.
func TestAnswersInJSON(t *testing.T) {
	out, err := run(nil, "-c", "testdata/Caddyfile", "-l", ":443", "-n", "imap.example", "--alpn", "pop3", "--json")
	if !errors.Is(err, errClosed) {
		t.Fatalf("got error %v, want %v", err, errClosed)
	}
	var got struct {
		Routers []answer `json:"routers"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Routers) != 1 {
		t.Fatalf("got %d routers, want 1", len(got.Routers))
	}
	a := got.Routers[0]
	if a.Action != "closed" || a.Reason != "alpn_unmatched" || a.Pattern != ".imap.example" || a.Alert == nil || a.Alert.Number != 120 {
		t.Errorf("got %+v, want closed, alpn_unmatched, .imap.example, alert 120", a)
	}
}

func TestRefused(t *testing.T) {
	const caddyfile = "testdata/Caddyfile"
	router := func(fields string) string {
		return `{"apps":{"layer4":{"servers":{"s":{"listen":[":1"],"routes":[{"handle":[{"handler":"sni_router",` + fields + `}]}]}}}}}`
	}
	layer4 := func(server string) string { return `{"apps":{"layer4":{"servers":{"s":` + server + `}}}}` }
	const handle = `"handle":[{"handler":"next"}]`
	tests := []struct{ config, args, want string }{
		{"", "--config " + caddyfile, "either --name or --hello"},
		{"", "--config " + caddyfile + " --name a --hello b", "either --name or --hello"},
		{"", "--config " + caddyfile + " --hello b --alpn h2", "--alpn and --ech go with --name"},
		{"", "--config " + caddyfile + " --name a --peer 10.0.0.1", "--peer goes with --hello"},
		{"", "--config " + caddyfile + " --hello - --peer ten", "--peer: ParseAddr"},
		{"", "--config " + caddyfile + " --hello testdata/missing", "testdata/missing"},
		{"", "--config - --hello -", "stdin"},
		{"", "--config " + caddyfile + " --name a --alpn h2,,h3", `--alpn: "" has 0 bytes`},
		{"", "--config " + caddyfile + " --name -ü.test", "--name: idna"},
		{"", "--config " + caddyfile + " --name a --listen :1", `no sni_router listens on ":1", but on 10.0.0.1:8443, :10443, :443, :9443`},
		{"", "--config " + caddyfile + " --name a --listen 443", `--listen: "443" has no port`},
		{"", "--config " + caddyfile + " --name a what", `unexpected argument "what"`},
		{"", "--config " + caddyfile + " --nome a", "unknown flag: --nome"},
		{"", "--config testdata/missing.json --name a", "testdata/missing.json"},
		{"", "--name a", "name a config with --config"},
		{`{`, "", "not valid JSON"},
		{`{}`, "", "there is no sni_router"},
		{`{"apps":{"http":{"servers":{"s":{"listener_wrappers":[{"wrapper":"other","routes":"a word"}]}}}}}`, "", "there is no sni_router"},
		{layer4(`{"routes":"a word"}`), "", "apps.layer4.servers.s.routes"},
		{layer4(`{"routes":[{"handle":[{}]}]}`), "", "routes[0].handle[0]: reading the name"},
		{layer4(`{"routes":[{"handle":[{"handler":"preread","max_bytes":1}]}]}`), "", "routes[0].handle[0]: max_bytes: 1 is out of range"},
		{layer4(`{"routes":[{"handle":[{"handler":"preread","proxy_protocol":{}}]}]}`), "", "proxy_protocol.from: must name"},
		{layer4(`{"routes":[{"handle":[{"handler":"preread","proxy_protocol":{"from":["x"]}}]}]}`), "", `proxy_protocol.from: "x"`},
		{
			layer4(`{"routes":[{"handle":[{"handler":"subroute","routes":[{"handle":[{"handler":"preread","time":1}]}]}]}]}`), "",
			`routes[0].handle[0].routes[0].handle[0]: json: unknown field "time"`,
		},
		{router(`"route":[]`), "", `apps.layer4.servers.s.routes[0].handle[0]: json: unknown field "route"`},
		{router(`"alert":"on"`), "", "there is neither a route nor a fallback"},
		{router(`"routes":[null]`), "", "routes[0]: is null"},
		{router(`"fallback":[null]`), "", "fallback[0]: is null"},
		{router(`"routes":[{"names":["a.test"]}]`), "", "routes[0].handle: needs at least one handler"},
		{router(`"fallback":[{}]`), "", "fallback[0].handle: needs at least one handler"},
		{router(`"fallback":[{"reasons":["front_closed"],` + handle + `}]`), "", "can't have a fallback"},
		{router(`"routes":[{"names":["a.test"],` + handle + `},{"names":["A.test"],` + handle + `}]`), "", "routes[1].names"},
		{router(`"routes":[{"names":["{env.SLUICE_TEST_MISSING}"],` + handle + `}]`), "", "SLUICE_TEST_MISSING"},
		{
			router(`"routes":[{"names":["a.test"],"handle":[{"handler":"tee","branch":[{"handler":"sni_router"}]}]}]`), "",
			"routes[0].handle[0].branch[0]: routes: there is neither",
		},
	}
	for _, tt := range tests {
		args := strings.Fields(tt.args)
		if tt.config != "" {
			args = []string{"--config", writeFile(t, "caddy.json", []byte(tt.config)), "--name", "a.test"}
		}
		out, err := run(nil, args...)
		if err == nil || errors.Is(err, errClosed) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %s: got error %v, want %q", tt.config, tt.args, err, tt.want)
		}
		if out != "" {
			t.Errorf("%s %s: got output %q, want none", tt.config, tt.args, out)
		}
	}
}

// TestWalk finds routers wherever they are.
func TestWalk(t *testing.T) {
	const router = `{"handler":"sni_router","fallback":[{"handle":[{"handler":"next"}]}]}`
	const config = `{"@id":"top","apps":{
		"layer4":{"servers":{
			"b":{"listen":["udp/:443"],"routes":[{"handle":[` + router + `]}]},
			"a":{"listen":[":1","udp/:1"],"routes":[
				{"match":[{"tls":{},"local_ip":{}},{"clock":{}}],"handle":[{"handler":"tls"},{"handler":"subroute","routes":[{"handle":[` + router + `]}]}]},
				{"handle":[{"handler":"throttle"},{"handler":"tee","branch":[` + router + `]},{"handler":"proxy"},` + router + `]},
				{"@id":"here","handle":[` + router + `]}]}}},
		"http":{"servers":{"h":{"listen":[":2"],"routes":[{"handle":[{"handler":"subroute","routes":[]}]}],"listener_wrappers":[
			{"wrapper":"proxy_protocol"},{"wrapper":"layer4","routes":[{"handle":[` + router + `]}]},{"wrapper":"tls"}]}}}}}`
	out, err := run(nil, "--config", writeFile(t, "caddy.json", []byte(config)), "--name", "a.test", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Routers []answer `json:"routers"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	const a = "apps.layer4.servers.a.routes"
	want := []string{
		a + "[0].handle[1].routes[0].handle[0] if " + a + "[0].match: local_ip and tls, or clock behind tls,subroute lost ",
		a + "[1].handle[1].branch[0] if  behind throttle,tee lost ",
		a + "[1].handle[3] if  behind throttle,tee,proxy lost the handler proxy at " + a + "[1].handle[2] keeps the connection",
		a + "[2].handle[0] if  behind throttle,tee,proxy lost the handler proxy at " + a + "[1].handle[2] keeps the connection",
		"apps.layer4.servers.b.routes[0].handle[0] if  behind  lost only stream connections can be preread, not udp",
		"apps.http.servers.h.listener_wrappers[1].routes[0].handle[0] if  behind listener wrapper proxy_protocol lost ",
	}
	for i, r := range got.Routers {
		line := fmt.Sprintf("%s if %s behind %s lost %s", r.Path, strings.Join(r.Conditions, ";"), strings.Join(r.Behind, ","), r.NotReached)
		if i >= len(want) || line != want[i] {
			t.Errorf("router %d: got %s", i, line)
		}
	}
	if len(got.Routers) != len(want) {
		t.Errorf("got %d routers, want %d", len(got.Routers), len(want))
	}
}

// TestDocs asks the questions on the docs page.
func TestDocs(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	page, err := os.ReadFile(filepath.Join("docs", "explain.md"))
	if err != nil {
		t.Fatal(err)
	}
	const prompt = "$ caddy sluice explain "
	parts := strings.Split(string(page), prompt)
	for _, part := range parts[1:] {
		args, rest, _ := strings.Cut(part, "\n")
		got, err := run(nil, strings.Fields(args)...)
		if err != nil && !errors.Is(err, errClosed) {
			t.Errorf("%s: %v", args, err)
		}
		if !strings.HasPrefix(rest, got) {
			t.Errorf("%s: got\n%s", args, got)
		}
	}
	if len(parts) < 3 {
		t.Errorf("got %d questions, want some", len(parts)-1)
	}
}

// TestExitCodes runs caddy itself.
func TestExitCodes(t *testing.T) {
	config, err := filepath.Abs("testdata/Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"--listen :10443 --name pass.test", 0, "→ forward 10.0.0.15:443", ""},
		{"--listen :10443 --name www.test", 0, "→ handed over", ""},
		{"--listen :443 --name other.example", 1, "unrecognized_name (112)", ""},
		{"--listen :443", 2, "", "either --name or --hello"},
		{"--unknown", 2, "", "unknown flag"},
		{"argument", 2, "", "unexpected argument"},
		{"--name a.test --config /missing", 2, "", "/missing"},
	}
	for _, tt := range tests {
		cmd := exec.Command(os.Args[0], append([]string{"sluice", "explain", "--config", config}, strings.Fields(tt.args)...)...)
		cmd.Env = append(os.Environ(), asCaddy+"=1")
		cmd.Dir = t.TempDir()
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != tt.code {
			t.Errorf("%s: got exit code %d, want %d", tt.args, got, tt.code)
		}
		if !strings.Contains(stdout.String(), tt.stdout) || (tt.stdout == "") != (stdout.Len() == 0) || !strings.Contains(stderr.String(), tt.stderr) {
			t.Errorf("%s: got stdout %q, stderr %q, want %q, %q", tt.args, &stdout, &stderr, tt.stdout, tt.stderr)
		}
	}
}
