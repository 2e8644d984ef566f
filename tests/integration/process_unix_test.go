//go:build unix

package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// asCaddy is the variable under which this test binary is a Caddy.
const asCaddy = "SLUICE_TEST_AS_CADDY"

func init() {
	if os.Getenv(asCaddy) != "" {
		caddycmd.Main()
	}
}

// process is a Caddy in a process of its own, for what can't be seen from inside: its exit.
type process struct {
	*lab
	cmd   *exec.Cmd
	admin string
	ended chan struct{}

	// mu guards lines.
	mu    sync.Mutex
	lines []map[string]any
}

// spawn runs a Caddy with these global options until the test is over or it is ended.
func (l *lab) spawn(name, options string) *process {
	l.Helper()
	return l.spawnWith(name, options, "")
}

// spawnWith is spawn, with a command of the shell in front, such as one that sets a limit.
func (l *lab) spawnWith(name, options, first string) *process {
	l.Helper()
	p := &process{lab: l, admin: filepath.Join(l.dir, name), ended: make(chan struct{})}
	config := filepath.Join(l.dir, name+".Caddyfile")
	text := fmt.Sprintf("{\nadmin unix/%s\npersist_config off\nstorage file_system %s\nlog {\noutput stdout\nformat json\nlevel DEBUG\n}\n%s\n}\n",
		p.admin, l.dir, options)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		l.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		l.Fatal(err)
	}
	p.cmd = exec.Command("sh", "-c", first+"\nexec \"$@\"", "sh", self, "run", "--config", config, "--adapter", "caddyfile")
	p.cmd.Env = append(os.Environ(), asCaddy+"=1", "HOME="+l.dir)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		l.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		l.Fatal(err)
	}
	go p.read(bufio.NewScanner(out))
	l.Cleanup(p.kill)
	p.eventually(name+" has started", func() (string, bool) { return p.ready() })
	return p
}

// read collects the lines of the log, and the process at its end.
func (p *process) read(out *bufio.Scanner) {
	defer close(p.ended)
	out.Buffer(nil, 1<<20)
	for out.Scan() {
		var line map[string]any
		if json.Unmarshal(out.Bytes(), &line) == nil {
			p.mu.Lock()
			p.lines = append(p.lines, line)
			p.mu.Unlock()
		}
	}
	_ = p.cmd.Wait()
}

// ready says whether the process has started all of its config.
func (p *process) ready() (state string, ok bool) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", p.admin)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get("http://127.0.0.1/sluice/healthy")
	if err != nil {
		return err.Error(), false
	}
	_ = resp.Body.Close()
	return resp.Status, len(p.logged("serving initial configuration")) > 0
}

// logged returns the lines of the log with this message.
func (p *process) logged(msg string) []map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []map[string]any
	for _, line := range p.lines {
		if line["msg"] == msg {
			found = append(found, line)
		}
	}
	return found
}

// terminate sends SIGTERM.
func (p *process) terminate() {
	p.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.Fatal(err)
	}
}

// wait waits for the end of the process and says how long that took.
func (p *process) wait() time.Duration {
	p.Helper()
	start := time.Now()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.Fatalf("the process has not ended after %v", patience)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.Errorf("got exit code %d, want 0", code)
	}
	return time.Since(start)
}

// kill ends the process if it has not ended.
func (p *process) kill() {
	select {
	case <-p.ended:
	default:
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	if p.Failed() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, line := range p.lines[max(0, len(p.lines)-40):] {
			p.Logf("%v", line)
		}
	}
}
