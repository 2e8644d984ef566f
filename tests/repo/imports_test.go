package repo

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	caddyPath     = "github.com/caddyserver/caddy/v2"
	configPath    = caddyPath + "/caddyconfig"
	caddyfilePath = configPath + "/caddyfile"
	httpPath      = caddyPath + "/modules/caddyhttp"
	eventsPath    = caddyPath + "/modules/caddyevents"
	layer4Path    = "github.com/mholt/caddy-l4/layer4"
	zapPath       = "go.uber.org/zap"
	promPath      = "github.com/prometheus/client_golang/prometheus"
)

// coreNames are the packages that decide from bytes, numbers and times that they are given.
var coreNames = []string{
	"internal/balance", "internal/bodypipe", "internal/clienthello", "internal/health", "internal/ipset", "internal/jsonscan",
	"internal/lifetime", "internal/namecache", "internal/netguard", "internal/permit", "internal/preread", "internal/proxyheader", "internal/snitable",
}

// ours turns paths below the module into import paths.
func ours(rel ...string) []string {
	for i := range rel {
		rel[i] = module + "/" + rel[i]
	}
	return rel
}

// rule says what the packages whose path below the module matches one of the patterns may import, besides std. The
// patterns are those of path.Match; "/..." at the end means everything below.
type rule struct {
	name     string
	packages []string
	allow    []string
	// denyStd are packages of the standard library that are not allowed.
	denyStd []string
}

// host are the imports that every module has a use for.
var host = slices.Concat(
	[]string{caddyPath, configPath, caddyfilePath, layer4Path, zapPath, zapPath + "/zapcore", promPath},
	ours(slices.Clone(coreNames)...),
	ours("internal/prom", "internal/guarddial", "internal/linger", "internal/offstack", "internal/relay", "internal/replay",
		"internal/sockopt", "caddyfile/...", "modules/addrcheck", "modules/balancers", "modules/cluster", "modules/discovery", "modules/healthchecks", "modules/hostport", "modules/refusal", "modules/reserved", "modules/session", "modules/shedding", "modules/sluiceapp", "modules/sockets", "modules/upstreamtls"),
)

// rules holds one entry for each package; the first that matches counts.
var rules = []rule{
	{
		name:     "cores know no Caddy, no log, no socket, no file and no clock",
		packages: slices.Clone(coreNames),
		allow:    append([]string{"golang.org/x/net/idna", "golang.org/x/crypto/cryptobyte", "github.com/cespare/xxhash/v2"}, ours(slices.Clone(coreNames)...)...),
		denyStd:  []string{"net", "net/http", "os", "os/exec", "syscall", "log", "log/slog", "crypto/tls", "math/rand", "math/rand/v2"},
	},
	{name: "the relay knows sockets, but no Caddy", packages: []string{"internal/relay"}, allow: []string{"golang.org/x/sys/unix"}},
	{name: "socket options know sockets only", packages: []string{"internal/sockopt"}, allow: []string{"golang.org/x/sys/unix"}},
	{name: "the guarded dialer knows the guard and sockets", packages: []string{"internal/guarddial"}, allow: ours("internal/namecache", "internal/netguard", "internal/sockopt")},
	{name: "replay knows connections only", packages: []string{"internal/replay"}},
	{name: "linger knows connections only", packages: []string{"internal/linger"}},
	{name: "offstack knows functions only", packages: []string{"internal/offstack"}},
	{name: "prom knows the metrics library only", packages: []string{"internal/prom"}, allow: []string{promPath}},
	{name: "the test kit's name server knows messages only", packages: []string{"internal/testkit/dns"}, allow: []string{"golang.org/x/net/dns/dnsmessage"}},
	{
		name:     "the test kit knows Caddy and the cores, but no module of ours",
		packages: []string{"internal/testkit/..."},
		allow:    append([]string{caddyPath + "/...", layer4Path, zapPath + "/...", promPath}, ours(slices.Clone(coreNames)...)...),
	},
	{
		name:     "what the Caddyfile syntax shares knows no module of ours",
		packages: []string{"caddyfile/..."},
		allow:    []string{caddyPath, configPath + "/...", httpPath, "github.com/dustin/go-humanize"},
	},
	{
		name:     "the address check is the one place that looks into the HTTP app",
		packages: []string{"modules/addrcheck"},
		allow:    append([]string{caddyPath, httpPath, layer4Path, zapPath}, ours("modules/sluiceapp")...),
	},
	{name: "sockets know Caddy's listeners", packages: []string{"modules/sockets"}, allow: []string{caddyPath, "golang.org/x/sys/unix"}},
	{
		name:     "the app has the process's own business",
		packages: []string{"modules/sluiceapp"},
		allow:    slices.Concat(host, ours("internal/pressure"), []string{eventsPath, configPath + "/httpcaddyfile"}),
	},
	{
		name:     "pressure reads the process",
		packages: []string{"internal/pressure"},
		allow:    []string{"github.com/prometheus/procfs", "github.com/KimMachineGun/automemlimit/memlimit", "github.com/dustin/go-humanize"},
	},
	{
		name:     "TLS to upstreams takes its settings from Caddy's reverse proxy",
		packages: []string{"modules/upstreamtls"},
		allow:    append([]string{caddyPath, configPath, caddyfilePath, httpPath + "/reverseproxy"}, ours("caddyfile/args")...),
	},
	{
		name:     "checks take PROXY headers and the rules of HTTP from their libraries",
		packages: []string{"modules/healthchecks"},
		allow:    slices.Concat(host, []string{"github.com/pires/go-proxyproto", "golang.org/x/net/http/httpguts"}),
	},
	{
		name:     "balancers know nothing but how to choose",
		packages: []string{"modules/balancers"},
		allow:    append([]string{"golang.org/x/net/http/httpguts", caddyPath, caddyfilePath}, ours("internal/balance", "caddyfile/args")...),
	},
	{name: "refusals are answered as Caddy's HTTP app does", packages: []string{"modules/refusal"}, allow: []string{httpPath}},
	{name: "reserved names are names of headers", packages: []string{"modules/reserved"}, allow: []string{"golang.org/x/net/http/httpguts"}},
	{name: "addresses are read as Caddy does, names as patterns are", packages: []string{"modules/hostport"}, allow: append([]string{caddyPath}, ours("internal/snitable")...)},
	{
		name:     "clusters know neither connections nor the app, but upstreams as Caddy's reverse proxy has them",
		packages: []string{"modules/cluster"},
		allow: append([]string{caddyPath, configPath, caddyfilePath, zapPath, promPath, eventsPath, httpPath + "/reverseproxy"},
			ours("internal/balance", "internal/guarddial", "internal/health", "internal/netguard", "internal/prom", "caddyfile/args",
				"modules/balancers", "modules/discovery", "modules/healthchecks", "modules/hostport", "modules/upstreamtls")...),
	},
	{
		name:     "discovery speaks DNS, and asks modules of Caddy's reverse proxy",
		packages: []string{"modules/discovery"},
		allow:    slices.Concat(host, []string{httpPath, httpPath + "/reverseproxy", "github.com/miekg/dns"}),
	},
	{name: "what modules share knows none of them", packages: []string{"modules/*"}, allow: host},
	{
		name:     "the listener wrapper sits in the HTTP app's server",
		packages: []string{"l4sni/listener"},
		allow:    slices.Concat(host, ours("l4sni"), []string{httpPath, eventsPath, "golang.org/x/sys/unix"}),
	},
	{
		name:     "explain is a command that asks the router, with a hello that it makes",
		packages: []string{"l4sni/explain"},
		allow: slices.Concat(host, ours("l4sni", "l4sni/listener"), []string{
			caddyPath + "/cmd", "github.com/spf13/cobra", "golang.org/x/crypto/cryptobyte", "golang.org/x/net/idna",
		}),
	},
	{
		name:     "forward takes PROXY headers from their library",
		packages: []string{"l4filters/forward"},
		allow:    slices.Concat(host, []string{"github.com/pires/go-proxyproto"}),
	},
	{name: "layer-4 modules know neither each other nor the HTTP app", packages: []string{"l4sni", "l4filters/*"}, allow: host},
	{
		name:     "cluster_proxy is Caddy's reverse proxy with parts of its own",
		packages: []string{"httpfilters/clusterproxy"},
		allow: slices.Concat(host, ours("modules/upstreamtls", "httpfilters/pipeline"), []string{
			httpPath, httpPath + "/reverseproxy", configPath + "/httpcaddyfile", "golang.org/x/net/http/httpguts",
		}),
	},
	{
		name:     "HTTP handlers are made of Caddy's HTTP app",
		packages: []string{"httpfilters/admission", "httpfilters/validaterequest"},
		allow:    slices.Concat(host, []string{httpPath, configPath + "/httpcaddyfile", "golang.org/x/net/http/httpguts"}),
	},
	{
		name:     "the pipeline knows the errors of streams",
		packages: []string{"httpfilters/pipeline"},
		allow: slices.Concat(host, []string{
			httpPath, configPath + "/httpcaddyfile", "golang.org/x/net/http2", "github.com/quic-go/quic-go/http3",
		}),
	},
	{
		name:     "HTTP filters are guests of the pipeline",
		packages: []string{"httpfilters/*"},
		allow:    slices.Concat(host, ours("httpfilters/pipeline"), []string{httpPath, "golang.org/x/net/http/httpguts"}),
	},
	{name: "the list of what ships", packages: []string{"modules"}, allow: append([]string{layer4Path, "github.com/mholt/caddy-l4/..."}, ours("l4sni/...", "l4filters/...", "httpfilters/...", "modules/adminapi", "modules/balancers", "modules/healthchecks")...)},
	{name: "the root imports the list", packages: []string{""}, allow: ours("modules")},
	{name: "a Caddy with everything in it", packages: []string{"xcaddy"}, allow: []string{module, caddyPath + "/cmd", caddyPath + "/modules/standard", "github.com/mholt/caddy-l4"}},
	{
		name:     "benchmarks look at the product from outside",
		packages: []string{"bench/..."},
		allow:    append([]string{caddyPath + "/...", "github.com/mholt/caddy-l4/...", "golang.org/x/sys/..."}, ours("bench/internal/...", "internal/testkit/...")...),
	},
	{
		name:     "an example of a filter knows what a filter of somebody else can know",
		packages: []string{"examples/*"},
		allow:    append([]string{caddyPath, caddyfilePath, zapPath, zapPath + "/zapcore"}, ours("httpfilters/pipeline")...),
	},
	{name: "tests may use everything", packages: []string{"tests/..."}, allow: []string{"..."}},
}

// TestImports checks the imports of every package, for every system that the product is built for.
func TestImports(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		t.Run(goos, func(t *testing.T) {
			for _, p := range packages(t, goos) {
				i := slices.IndexFunc(rules, func(r rule) bool { return matchesAny(r.packages, p.rel()) })
				if i < 0 {
					t.Errorf("package %s: there is no rule for it", p.ImportPath)
					continue
				}
				for _, imported := range p.Imports {
					if !rules[i].allows(imported) {
						t.Errorf("package %s must not import %s: %s", p.ImportPath, imported, rules[i].name)
					}
				}
			}
		})
	}
}

// allows says whether the rule allows an import.
func (r *rule) allows(imported string) bool {
	if isStd(imported) {
		return !slices.Contains(r.denyStd, imported)
	}
	return matchesAny(r.allow, imported)
}

// isStd says whether an import path belongs to the standard library: its first element has no dot.
func isStd(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// matchesAny says whether a path matches one of the patterns of a rule.
func matchesAny(patterns []string, p string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if base, below := strings.CutSuffix(pattern, "..."); below {
			return strings.HasPrefix(p+"/", base)
		}
		ok, err := path.Match(pattern, p)
		return ok && err == nil
	})
}

// TestTestKit checks that what is there for tests is used by tests and benchmarks only, and that the product does not
// use either.
func TestTestKit(t *testing.T) {
	for _, p := range packages(t, "linux") {
		if matchesAny([]string{"internal/testkit/...", "tests/...", "bench/..."}, p.rel()) {
			continue
		}
		for _, imported := range p.Imports {
			if matchesAny([]string{"internal/testkit/...", "tests/...", "bench/..."}, relative(imported)) {
				t.Errorf("package %s must not import %s outside its tests", p.ImportPath, imported)
			}
		}
	}
}

// TestBlankImports checks that the packages which only say what belongs together have nothing else in them.
func TestBlankImports(t *testing.T) {
	for _, s := range sources(t) {
		dir := path.Dir(strings.TrimPrefix(s.path, root+"/"))
		if dir != "." && dir != "modules" {
			continue
		}
		for _, decl := range s.file.Decls {
			if gen, ok := decl.(*ast.GenDecl); ok && allBlank(gen) {
				continue
			}
			t.Errorf("%s:%d: only blank imports may stand here", s.path, s.line(decl.Pos()))
		}
	}
}

// allBlank says whether a declaration is nothing but blank imports.
func allBlank(gen *ast.GenDecl) bool {
	return !slices.ContainsFunc(gen.Specs, func(spec ast.Spec) bool {
		imp, ok := spec.(*ast.ImportSpec)
		return !ok || imp.Name == nil || imp.Name.Name != "_"
	})
}

// clock are the functions that make a package depend on the time at which it runs.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

// TestCoresHaveNoClock checks that cores are told the time, and start nothing that goes on after the call.
func TestCoresHaveNoClock(t *testing.T) {
	for _, s := range sources(t) {
		dir := path.Dir(strings.TrimPrefix(s.path, root+"/"))
		if s.isTest() || !slices.Contains(coreNames, dir) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s:%d: a core starts no goroutine", s.path, s.line(n.Pos()))
			case *ast.SelectorExpr:
				if from, ok := n.X.(*ast.Ident); ok && from.Name == "time" && slices.Contains(clock, n.Sel.Name) {
					t.Errorf("%s:%d: a core is given the time, it does not use time.%s", s.path, s.line(n.Pos()), n.Sel.Name)
				}
			}
			return true
		})
	}
}

// TestNoDotImports checks that names say where they come from.
func TestNoDotImports(t *testing.T) {
	for _, s := range sources(t) {
		for _, imp := range s.file.Imports {
			imported, err := strconv.Unquote(imp.Path.Value)
			if err != nil || imp.Name != nil && imp.Name.Name == "." {
				t.Errorf("%s: dot import of %s", s.path, imported)
			}
		}
	}
}
