package repo

import (
	"bytes"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	// maxFile and maxFunc are the longest that a file and a function may be, in lines, comments included. What is
	// longer is two things.
	maxFile = 400
	maxFunc = 60
	// maxParams is the most parameters a function may have.
	maxParams = 5
	// maxLiteral is the longest a function without a name may be.
	maxLiteral = 15
)

// TestShape checks the sizes. Test files are exempt from all but the length of a file: their tables may be long.
func TestShape(t *testing.T) {
	for _, s := range sources(t) {
		if lines := s.fset.File(s.file.Pos()).LineCount(); lines > maxFile {
			t.Errorf("%s: got %d lines, want at most %d", s.path, lines, maxFile)
		}
		if s.isTest() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				s.checkLength(t, n, n.Name.Name, maxFunc)
				if params := n.Type.Params.NumFields(); params > maxParams {
					t.Errorf("%s:%d: %s: got %d parameters, want at most %d", s.path, s.line(n.Pos()), n.Name.Name, params, maxParams)
				}
			case *ast.FuncLit:
				s.checkLength(t, n, "func literal", maxLiteral)
			case *ast.BranchStmt:
				if n.Tok == token.GOTO {
					t.Errorf("%s:%d: goto", s.path, s.line(n.Pos()))
				}
			}
			return true
		})
	}
}

// checkLength checks the length of a function.
func (s *source) checkLength(t *testing.T, n ast.Node, name string, limit int) {
	t.Helper()
	if lines := s.line(n.End()) - s.line(n.Pos()) + 1; lines > limit {
		t.Errorf("%s:%d: %s: got %d lines, want at most %d", s.path, s.line(n.Pos()), name, lines, limit)
	}
}

// TestPackageDocs checks that every package says once what it is for, and begins as Go's tools expect it.
func TestPackageDocs(t *testing.T) {
	docs := make(map[string][]string) // by folder
	names := make(map[string]string)
	for _, s := range sources(t) {
		dir := filepath.Dir(s.path)
		if !strings.HasSuffix(s.file.Name.Name, "_test") {
			names[dir] = s.file.Name.Name
		}
		if s.file.Doc != nil {
			docs[dir] = append(docs[dir], s.file.Doc.Text())
		}
	}
	for dir, name := range names {
		if len(docs[dir]) != 1 {
			t.Errorf("%s: got %d package comments, want 1", dir, len(docs[dir]))
			continue
		}
		want := "Package " + name + " "
		if name == "main" {
			want = "Command " + filepath.Base(dir) + " "
		}
		if !strings.HasPrefix(docs[dir][0], want) {
			t.Errorf("%s: the package comment must begin with %q", dir, want)
		}
	}
}

// TestFileNames refuses the names under which things gather that have nothing to do with each other.
func TestFileNames(t *testing.T) {
	for _, s := range sources(t) {
		switch strings.TrimSuffix(strings.TrimSuffix(filepath.Base(s.path), ".go"), "_test") {
		case "util", "utils", "helper", "helpers", "common", "types", "misc":
			t.Errorf("%s: the name must say what is in it", s.path)
		}
	}
}

// sleepComment is how many lines above a time.Sleep its comment may end: there may be a step in between.
const sleepComment = 3

// TestSleeps checks that tests don't wait and hope: a time.Sleep in a test must be in a loop (it polls, or paces what it
// sends), or have its own time (testing/synctest), or a comment that says why it is right.
func TestSleeps(t *testing.T) {
	for _, s := range sources(t) {
		if !s.isTest() || s.imports("testing/synctest") {
			continue
		}
		excused := make(map[int]bool) // lines
		for _, group := range s.file.Comments {
			for line := range sleepComment + 1 {
				excused[s.line(group.End())+line] = true
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.ForStmt, *ast.RangeStmt:
				for line := s.line(n.Pos()); line <= s.line(n.End()); line++ {
					excused[line] = true
				}
			}
			return true
		})
		s.checkSleeps(t, excused)
	}
}

// checkSleeps reports each time.Sleep on a line without an excuse.
func (s *source) checkSleeps(t *testing.T, excused map[int]bool) {
	t.Helper()
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.SelectorExpr)
		if !ok || call.Sel.Name != "Sleep" || excused[s.line(call.Pos())] {
			return true
		}
		if from, ok := call.X.(*ast.Ident); ok && from.Name == "time" {
			t.Errorf("%s:%d: time.Sleep without a comment that says why", s.path, s.line(call.Pos()))
		}
		return true
	})
}

// imports says whether the file imports a package.
func (s *source) imports(path string) bool {
	for _, imp := range s.file.Imports {
		if imp.Path.Value == `"`+path+`"` {
			return true
		}
	}
	return false
}

// TestForeignWords checks that nothing of the place where the tree was made is left in it. The words are put together
// here, so that this file doesn't hold them.
func TestForeignWords(t *testing.T) {
	words := []string{"/wo" + "rk/shared", "/wo" + "rk/main", "proxy." + "golang"}
	for _, path := range files(t) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range words {
			if bytes.Contains(b, []byte(word)) {
				t.Errorf("%s: contains %q", path, word)
			}
		}
	}
}
