package repo

import (
	"fmt"
	"go/ast"
	"go/token"
	"iter"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// span is a range of numbers, both ends included.
type span struct{ first, last int }

// caseNumbers has the numbers of the cases of each kind.
var caseNumbers = map[string][]span{
	"P": {{1, 58}}, "C": {{1, 42}}, "S": {{1, 19}}, "E": {{1, 28}}, "F": {{1, 8}},
	"T": {{1, 25}, {30, 50}, {60, 89}},
	"H": {{1, 36}, {40, 65}, {70, 98}, {100, 131}, {140, 160}},
	"Z": {{1, 131}},
}

var (
	// caseRange finds "P07" and "P07–P09".
	caseRange = regexp.MustCompile(`\b([PCSEFTHZ])(\d\d\d?)\b(?:–([PCSEFTHZ])(\d\d\d?)\b)?`)
	// testName finds "package.TestName" and "package.TestName/subtest" between backquotes.
	testName = regexp.MustCompile("`(\\w+)\\.((?:Test|Fuzz)\\w*)(?:/([^`]+))?`")
	// bold finds what stands in bold, on one line.
	bold    = regexp.MustCompile(`\*\*.*?\*\*`)
	inlined = regexp.MustCompile("`[^`]*`")
)

// TestCases checks that each numbered case has either a row in docs/testing.md, which names tests, or a reason in
// docs/decisions.md.
func TestCases(t *testing.T) {
	tested := make(map[string]bool)
	for line := range strings.Lines(section(t, "testing.md", "Which case is tested where")) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || strings.Trim(cells[1], " -") == "" || strings.TrimSpace(cells[1]) == "cases" {
			continue
		}
		ids := caseIDs(t, cells[1])
		if len(ids) == 0 || !testName.MatchString(cells[2]) {
			t.Errorf("docs/testing.md: got %q, want cases and their tests", line)
		}
		for id := range ids {
			if tested[id] {
				t.Errorf("docs/testing.md: %s has two rows", id)
			}
			tested[id] = true
		}
	}
	without, _, _ := strings.Cut(section(t, "decisions.md", "Cases without a test"), "\nTested in part:\n")
	excused := caseIDs(t, strings.Join(bold.FindAllString(without, -1), " "))
	for kind, spans := range caseNumbers {
		for n := range numbers(spans) {
			id := fmt.Sprintf("%s%02d", kind, n)
			if tested[id] == excused[id] {
				t.Errorf("%s: got a row in docs/testing.md %v, a reason in docs/decisions.md %v, want one of both", id, tested[id], excused[id])
			}
		}
	}
}

// numbers returns the numbers in spans.
func numbers(spans []span) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, s := range spans {
			for n := s.first; n <= s.last; n++ {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// caseIDs returns the cases that a text names outside of code. Ranges are spelled out.
func caseIDs(t *testing.T, text string) map[string]bool {
	t.Helper()
	ids := make(map[string]bool)
	for _, found := range caseRange.FindAllStringSubmatch(inlined.ReplaceAllString(text, ""), -1) {
		kind, first := found[1], atoi(t, found[2])
		last := first
		if found[3] != "" {
			last = atoi(t, found[4])
		}
		within := slices.ContainsFunc(caseNumbers[kind], func(s span) bool { return s.first <= first && last <= s.last })
		if found[3] != "" && found[3] != kind || last < first || !within {
			t.Errorf("got %q, which is no case", found[0])
			continue
		}
		for n := first; n <= last; n++ {
			ids[fmt.Sprintf("%s%02d", kind, n)] = true
		}
	}
	return ids
}

func atoi(t *testing.T, digits string) int {
	t.Helper()
	n, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestNamedTests checks that the tests which docs/testing.md names exist, and that their package has a subtest of the
// name.
func TestNamedTests(t *testing.T) {
	have := make(map[string]bool)
	for _, s := range sources(t) {
		if !s.isTest() {
			continue
		}
		in := path.Base(path.Dir(s.path))
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				have[in+"."+n.Name.Name] = true
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					have[in+"/"+strings.Trim(n.Value, "`\"")] = true
				}
			}
			return true
		})
	}
	names := testName.FindAllStringSubmatch(section(t, "testing.md", "Which case is tested where"), -1)
	if len(names) == 0 {
		t.Fatal("found no name of a test")
	}
	for _, name := range names {
		if !have[name[1]+"."+name[2]] || name[3] != "" && !have[name[1]+"/"+name[3]] {
			t.Errorf("docs/testing.md: there is no %s", name[0])
		}
	}
}

// section returns the part of a page below a heading of the second level, up to the next one.
func section(t *testing.T, page, title string) string {
	t.Helper()
	_, text, ok := strings.Cut(read(t, "docs", page), "\n## "+title+"\n")
	if !ok {
		t.Fatalf("docs/%s: has no heading %q", page, title)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}
