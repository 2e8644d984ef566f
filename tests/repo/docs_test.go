package repo

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// link finds the target of a Markdown link or image.
var link = regexp.MustCompile(`\]\(([^()\s]+)\)`)

// TestLinks checks that links inside the tree lead to a file, and to a heading in it.
func TestLinks(t *testing.T) {
	for _, page := range files(t, ".md") {
		text := prose(readFile(t, page))
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(found[1], "://") || strings.HasPrefix(found[1], "mailto:") {
				continue
			}
			target, anchor, _ := strings.Cut(found[1], "#")
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: the link %q leads nowhere", page, found[1])
				continue
			}
			if anchor != "" && !hasHeading(readFile(t, file), anchor) {
				t.Errorf("%s: the link %q leads to no heading", page, found[1])
			}
		}
	}
}

// prose returns a Markdown text without its blocks of code, in which brackets mean something else.
func prose(text string) string {
	var b strings.Builder
	code := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		} else if !code {
			b.WriteString(line)
		}
	}
	return b.String()
}

// hasHeading says whether a text has a heading for the anchor, as GitHub makes anchors.
func hasHeading(text, anchor string) bool {
	for line := range strings.Lines(prose(text)) {
		if title, ok := strings.CutPrefix(line, "#"); ok && slug(strings.TrimLeft(title, "#")) == anchor {
			return true
		}
	}
	return false
}

// slug makes the anchor of a heading.
func slug(title string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(strings.TrimSpace(title)) {
		switch {
		case c == ' ':
			b.WriteByte('-')
		case c == '-', c == '_', c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			b.WriteRune(c)
		}
	}
	return b.String()
}

// TestPlaceholders checks that docs/placeholders.md lists each placeholder of a connection.
func TestPlaceholders(t *testing.T) {
	page := read(t, "docs", "placeholders.md")
	found := 0
	for _, s := range sources(t) {
		if path.Base(s.path) != "placeholders.go" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "placeholder") ||
				spec.Names[0].Name == "placeholderPrefix" {
				return true
			}
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatalf("%s: %v", s.path, err)
			}
			found++
			if !strings.Contains(page, "{l4.sluice."+value) {
				t.Errorf("docs/placeholders.md: {l4.sluice.%s} is missing", value)
			}
			return true
		})
	}
	if found == 0 {
		t.Error("found no placeholder")
	}
}

// TestReadme checks that the README tells the two commands first, and what the quickstart's own comment tells.
func TestReadme(t *testing.T) {
	readme := read(t, "README.md")
	run := strings.Index(readme, "go run ./xcaddy run --config examples/quickstart/Caddyfile")
	test := strings.Index(readme, "go test ./...")
	if second := strings.Index(readme, "\n## "); run < 0 || test < run || second < test {
		t.Errorf("README.md: got the run command at %d and the test command at %d, want them in this order before the first section", run, test)
	}
	tried := 0
	for line := range strings.Lines(read(t, "examples", "quickstart", "Caddyfile")) {
		command, answer, ok := strings.Cut(strings.TrimLeft(line, "# "), " -> ")
		if !ok || !strings.HasPrefix(command, "curl ") {
			continue
		}
		tried++
		for _, want := range []string{strings.TrimSpace(command), strings.TrimSpace(answer)} {
			if !strings.Contains(readme, want) {
				t.Errorf("README.md: lacks %q, which the quickstart promises", want)
			}
		}
	}
	if tried == 0 {
		t.Error("examples/quickstart/Caddyfile: got no curl line to try")
	}
}

// readFile returns a file by its path from here.
func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
