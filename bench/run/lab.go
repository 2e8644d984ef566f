package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// binaries are the programs that take part.
type binaries struct {
	sluice, stock, loadgen, copyproxy, haproxy string
}

// lab is what all scenarios share: programs, a folder for configs and logs, and a backend.
type lab struct {
	binaries
	dir     string
	rounds  int
	backend string
	ports   *ports
	started []*process
	start   time.Time
}

// newLab builds what is not given and starts the backend. On failure nothing is left behind.
func newLab(ctx context.Context, given binaries, rounds int) (*lab, error) {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return nil, err
	}
	l := &lab{binaries: given, dir: dir, rounds: rounds, ports: &ports{next: firstPort}, start: time.Now()}
	if err := l.prepare(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *lab) prepare(ctx context.Context) error {
	if err := os.Chmod(l.dir, 0o755); err != nil { // nobody's proxies read their configs here
		return err
	}
	var err error
	if l.haproxy, err = exec.LookPath("haproxy"); err != nil {
		return fmt.Errorf("HAProxy is needed (apt-get install haproxy): %w", err)
	}
	if err := l.build(ctx); err != nil {
		return err
	}
	l.backend, err = l.ports.take()
	if err != nil {
		return err
	}
	_, err = l.launch(ctx, "backend", l.backend, []string{l.loadgen, "backend", "-listen", l.backend})
	return err
}

// build puts all Go programs into the lab's folder.
func (l *lab) build(ctx context.Context) error {
	module, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("looking for go.mod: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(module)))
	for _, b := range []struct {
		path *string
		name string
		pkg  string
	}{
		{&l.loadgen, "loadgen", "./bench/loadgen"},
		{&l.copyproxy, "copyproxy", "./bench/copyproxy"},
		{&l.stock, "stock", "./bench/stock"},
		{&l.sluice, "sluice", "./xcaddy"},
	} {
		if err := l.provide(ctx, root, b.name, b.pkg, b.path); err != nil {
			return fmt.Errorf("building %s: %w", b.pkg, err)
		}
	}
	return nil
}

// provide builds a package, or copies the binary that was given instead, into the lab's folder, where nobody can execute it.
func (l *lab) provide(ctx context.Context, root, name, pkg string, path *string) error {
	given := *path
	*path = filepath.Join(l.dir, name)
	if given != "" {
		content, err := os.ReadFile(given)
		if err != nil {
			return err
		}
		return os.WriteFile(*path, content, 0o755)
	}
	l.logf("building %s", pkg)
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", *path, pkg)
	command.Dir, command.Stderr = root, os.Stderr
	return command.Run()
}

// path is where a file that belongs to a process of that name lies. It has no blanks, which HAProxy would not take.
func (l *lab) path(name, extension string) string {
	return filepath.Join(l.dir, strings.ReplaceAll(name, " ", "-")+extension)
}

// write puts a config file of a process into the lab's folder.
func (l *lab) write(name, extension string, content []byte) (path string, err error) {
	path = l.path(name, extension)
	return path, os.WriteFile(path, content, 0o644)
}

// close stops what still runs and removes the folder.
func (l *lab) close() error {
	return errors.Join(l.stop(l.started...), os.RemoveAll(l.dir))
}

func (l *lab) logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: %7.1fs "+format+"\n", append([]any{time.Since(l.start).Seconds()}, args...)...)
}

// firstPort is below the range from which Linux takes the local ports of outgoing connections (32768 to 60999), so that no
// client of the benchmark can sit on a port that a proxy wants.
const firstPort = 21000

// ports hands out free loopback addresses, each once.
type ports struct {
	next int
}

func (p *ports) take() (string, error) {
	for ; p.next < 32768; p.next++ {
		addr := fmt.Sprintf("127.0.0.1:%d", p.next)
		listener, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		p.next++
		return addr, listener.Close()
	}
	return "", errors.New("no free port")
}
