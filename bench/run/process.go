package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

const (
	// readyTimeout is how long a process may take to listen: ten thousand routes take a Caddy some seconds.
	readyTimeout = time.Minute
	// stopTimeout is how long a process may take to end by itself before it is killed.
	stopTimeout = 10 * time.Second
	// pollInterval is the pause between two looks at a process.
	pollInterval = 20 * time.Millisecond
)

// homeExtension is that of the folder in which a Caddy keeps its data.
const homeExtension = ".home"

// process is a program that runs beside the benchmark.
type process struct {
	name, log string
	command   *exec.Cmd
	// exited is closed when the process has ended; err is set before.
	exited chan struct{}
	err    error
}

// launch starts a program and waits until it listens on addr; an empty addr is not waited for. The program ends with ctx,
// with stop, or with close.
func (l *lab) launch(ctx context.Context, name, addr string, command []string) (*process, error) {
	p := &process{name: name, log: l.path(name, ".log"), exited: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own copy
	p.command = exec.CommandContext(ctx, command[0], command[1:]...)
	p.command.Stdout, p.command.Stderr = log, log
	home := l.path(name, homeExtension)
	p.command.Env = append(os.Environ(), "GOMAXPROCS=2", "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home)
	p.command.Cancel = func() error { return p.command.Process.Signal(syscall.SIGTERM) }
	p.command.WaitDelay = stopTimeout
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	l.started = append(l.started, p)
	go p.wait()
	if addr == "" {
		return p, nil
	}
	if err := p.waitReady(ctx, addr); err != nil {
		tail, _ := os.ReadFile(p.log)
		return nil, errors.Join(fmt.Errorf("starting %s: %w\n%s", name, err, tail[max(0, len(tail)-2000):]), l.stop(p))
	}
	return p, nil
}

// wait is the one goroutine of a process: it ends when the process does, which stop waits for.
func (p *process) wait() {
	p.err = p.command.Wait()
	close(p.exited)
}

func (p *process) pid() int {
	return p.command.Process.Pid
}

func (p *process) waitReady(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			return c.Close()
		}
		select {
		case <-p.exited:
			return fmt.Errorf("it ended early: %w", p.err)
		case <-ctx.Done():
			return fmt.Errorf("it does not listen on %s: %w", addr, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// stop ends processes, the last started first, and waits for them.
func (l *lab) stop(processes ...*process) error {
	var errs []error
	for _, p := range slices.Backward(slices.Clone(processes)) {
		if err := p.end(); err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", p.name, err))
		}
		l.started = slices.DeleteFunc(l.started, func(q *process) bool { return q == p })
	}
	return errors.Join(errs...)
}

// end asks the process to stop, kills it if it does not, and waits for it. Its exit status doesn't matter.
func (p *process) end() error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(stopTimeout):
	}
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	return nil
}
