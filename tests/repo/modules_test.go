package repo

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	_ "github.com/caddy-sluice/sluice"
)

// ourModules returns the IDs of the Caddy modules that the product registers, with the type of each.
func ourModules(t *testing.T) map[string]reflect.Type {
	t.Helper()
	found := make(map[string]reflect.Type)
	for _, id := range caddy.Modules() {
		info, err := caddy.GetModule(id)
		if err != nil {
			t.Fatal(err)
		}
		kind := reflect.TypeOf(info.New())
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		if matchesAny([]string{"l4sni/...", "l4filters/...", "httpfilters/...", "modules/..."}, relative(kind.PkgPath())) {
			found[id] = kind
		}
	}
	if len(found) == 0 {
		t.Fatal("found no module of ours")
	}
	return found
}

// pageOf returns the name of a module's page. Handlers, the most common kind, have the name of the directive; what else
// has that name says its kind first.
func pageOf(id string) string {
	dot := strings.LastIndexByte(id, '.')
	namespace, name := id[:max(dot, 0)], id[dot+1:]
	switch namespace {
	case "layer4.matchers":
		return "matcher_" + name + ".md"
	case "caddy.listeners":
		return "listener_" + name + ".md"
	case "http.reverse_proxy.upstreams":
		return "upstreams_" + name + ".md"
	case "sluice.balancers":
		return "balance_" + name + ".md"
	case "sluice.health_checks":
		return "health_" + name + ".md"
	}
	if id == "http.handlers.admission" {
		return "http_admission.md" // layer 4 has one of that name
	}
	return name + ".md"
}

// TestModulePages checks that each module has a page, under a title with its ID, with all of its settings, and that the
// README leads there.
func TestModulePages(t *testing.T) {
	sections := templateSections(t)
	readme := read(t, "README.md")
	for id, kind := range ourModules(t) {
		if strings.HasPrefix(id, "admin.api.") {
			continue // it has no settings; docs/admin.md is about it
		}
		t.Run(id, func(t *testing.T) {
			page := read(t, "docs", "modules", pageOf(id))
			if title, _, _ := strings.Cut(page, "\n"); !strings.Contains(title, "`"+id+"`") {
				t.Errorf("got title %q, want it to contain `%s`", title, id)
			}
			for _, section := range sections {
				if !strings.Contains(page, "\n"+section) {
					t.Errorf("lacks the section %q of the template", section)
				}
			}
			for _, field := range jsonFields(kind) {
				if !regexp.MustCompile("\n\\| `[a-z_.\\[\\]]*" + field + "` \\|").MatchString(page) {
					t.Errorf("lacks a table row for the field `%s`", field)
				}
			}
			if !strings.Contains(readme, "](docs/modules/"+pageOf(id)+")") {
				t.Error("README.md has no link to the page")
			}
		})
	}
}

// templateSections returns the headings that every module's page has.
func templateSections(t *testing.T) []string {
	t.Helper()
	var sections []string
	for line := range strings.Lines(prose(read(t, "docs", "modules", "_template.md"))) {
		if strings.HasPrefix(line, "## ") {
			sections = append(sections, strings.TrimSpace(line))
		}
	}
	if len(sections) == 0 {
		t.Fatal("docs/modules/_template.md has no section")
	}
	return sections
}

// jsonFields returns the names of the settings in a struct of ours and in those inside it.
func jsonFields(kind reflect.Type) []string {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
		kind = kind.Elem()
	}
	if kind.Kind() != reflect.Struct || !strings.HasPrefix(kind.PkgPath(), module) {
		return nil
	}
	var fields []string
	for field := range kind.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			fields = append(append(fields, name), jsonFields(field.Type)...)
		}
	}
	return fields
}

// TestModulesInExamples checks that each module is used by an example.
func TestModulesInExamples(t *testing.T) {
	var configs strings.Builder
	for _, example := range examples(t) {
		configs.Write(adapt(t, example, readFile(t, example)))
	}
	for id := range ourModules(t) {
		if trace := usage(id); !strings.Contains(configs.String(), trace) {
			t.Errorf("module %s is in no example: found no %s", id, trace)
		}
	}
}

// usage returns what a config has in it that uses the module.
func usage(id string) string {
	dot := strings.LastIndexByte(id, '.')
	name := id[dot+1:]
	switch id[:max(dot, 0)] {
	case "layer4.handlers", "http.handlers":
		return `"handler":"` + name + `"`
	case "http.filters":
		return `"filter":"` + name + `"`
	case "caddy.listeners":
		return `"wrapper":"` + name + `"`
	case "http.reverse_proxy.upstreams":
		return `"source":"` + name + `"`
	case "sluice.balancers":
		return `"policy":"` + name + `"`
	case "sluice.health_checks":
		return `"type":"` + name + `"`
	}
	return `"` + name + `":{`
}

// probe is a Caddy app that gives away the registry of the config it is in.
type probe struct {
	registry *prometheus.Registry
}

// probes carries the probe of the config that was validated last.
var probes = make(chan *probe, 1)

func init() { caddy.RegisterModule(new(probe)) }

func (*probe) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "sluice_probe", New: func() caddy.Module { return new(probe) }}
}

func (p *probe) Provision(ctx caddy.Context) error {
	p.registry = ctx.GetMetricsRegistry()
	probes <- p
	return nil
}

func (*probe) Start() error { return nil }
func (*probe) Stop() error  { return nil }

// metricName is what a metric of ours is called.
var metricName = regexp.MustCompile(`^caddy_sluice_[a-z]+_[a-z_]+$`)

// TestMetrics checks the names of the metrics, that their units are seconds and bytes, and that docs/metrics.md has
// them all.
func TestMetrics(t *testing.T) {
	config := load(t, "Caddyfile", read(t, "examples", "quickstart", "Caddyfile"))
	config["apps"].(map[string]any)["sluice_probe"] = map[string]any{}
	if err := validate(t, config); err != nil {
		t.Fatal(err)
	}
	registry := (<-probes).registry
	page := read(t, "docs", "metrics.md")
	names := described(registry)
	for _, name := range names {
		if !metricName.MatchString(name) {
			t.Errorf("metric %s: the name must match %v", name, metricName)
		}
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/metrics.md: %s is missing", name)
		}
	}
	if len(names) == 0 {
		t.Error("found no metric of ours")
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if slices.Contains(names, family.GetName()) {
			checkUnit(t, family.GetName(), family.GetType().String())
		}
	}
}

// described returns the names of our metrics in a registry, those without a value yet included.
func described(registry *prometheus.Registry) []string {
	descs := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descs)
		close(descs)
	}()
	var names []string
	fqName := regexp.MustCompile(`fqName: "(caddy_sluice[^"]*)"`)
	for desc := range descs {
		if found := fqName.FindStringSubmatch(desc.String()); found != nil {
			names = append(names, found[1])
		}
	}
	return names
}

// checkUnit checks the end of a metric's name against its type.
func checkUnit(t *testing.T, name, kind string) {
	t.Helper()
	if total := strings.HasSuffix(name, "_total"); total != (kind == "COUNTER") {
		t.Errorf("metric %s is a %s: counters end with _total, and nothing else does", name, kind)
	}
	for _, unit := range []string{"_ms", "_milliseconds", "_microseconds", "_minutes", "_kb", "_kib", "_size"} {
		if strings.HasSuffix(strings.TrimSuffix(name, "_total"), unit) {
			t.Errorf("metric %s: the units are _seconds and _bytes", name)
		}
	}
	if kind == "HISTOGRAM" && !slices.ContainsFunc([]string{"_seconds", "_bytes", "_records"},
		func(unit string) bool { return strings.HasSuffix(name, unit) }) {
		t.Errorf("metric %s: a histogram's name ends with its unit", name)
	}
}
