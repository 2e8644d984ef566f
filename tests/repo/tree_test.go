package repo

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module is the path of the Go module under test.
const module = "github.com/caddy-sluice/sluice"

// root is the top of the tree. Go runs a package's tests in the package's own folder.
const root = "../.."

// pkg is what `go list` says about one of our packages.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// rel returns the package's path below the module: "" for the root.
func (p *pkg) rel() string { return relative(p.ImportPath) }

// relative cuts the module path off an import path.
func relative(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

// packages lists our packages as they are built for goos.
func packages(t *testing.T, goos string) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+goos)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("listing packages: %v", err)
	}
	var list []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("reading the list of packages: %v", err)
		}
		list = append(list, p)
	}
	if len(list) == 0 {
		t.Fatal("found no package")
	}
	return list
}

// files returns the paths, with slashes and beginning with root, of all files whose name ends with one of the suffixes:
// all files, when none is given. Folders that hold no source of ours (.git, build output) are left out.
func files(t *testing.T, suffixes ...string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "bin", "vendor"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if len(suffixes) == 0 || slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(path, s) }) {
			list = append(list, filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("walking the tree: %v", err)
	}
	if len(list) == 0 {
		t.Fatalf("found no file with suffix %q", suffixes)
	}
	return list
}

// source is one parsed Go file.
type source struct {
	path string
	fset *token.FileSet
	file *ast.File
}

// line returns the line of a position.
func (s *source) line(pos token.Pos) int { return s.fset.Position(pos).Line }

// isTest says whether the file is only part of tests.
func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// sources parses all Go files of the tree, whatever system they are for.
func sources(t *testing.T) []source {
	t.Helper()
	var list []source
	for _, path := range files(t, ".go") {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatalf("parsing: %v", err)
		}
		list = append(list, source{path, fset, file})
	}
	return list
}

// read returns a file of the tree; its path is from the root.
func read(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
