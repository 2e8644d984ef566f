package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-sluice/sluice/bench/internal/load"
)

const (
	// spliceBytes is moved each way under strace.
	spliceBytes = 64 << 20
	// spliceMissLimit is the bar of splice: the part of the data that may go another way. The first bytes of a connection are
	// copied, as short connections don't pay for a pipe.
	spliceMissLimit = 0.05
)

// tracedCalls are all ways to move data through a socket.
const tracedCalls = "splice,sendfile,read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg"

// splice shows with strace how bulk data moves: inside the kernel, or through the process.
func splice(ctx context.Context, l *lab) (sections []section, err error) {
	if _, err := exec.LookPath("strace"); err != nil {
		return nil, fmt.Errorf("strace is needed (apt-get install strace): %w", err)
	}
	list := names(1)
	p, err := l.runSluice(ctx, "sluice under strace", list, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.stopProxies(p)) }()
	for _, kind := range []load.Kind{load.Down, load.Up} {
		calls, err := l.trace(ctx, p, load.Options{Kind: kind, Conns: 1, Bytes: spliceBytes, Limit: runLimit}, list[0])
		if err != nil {
			return sections, err
		}
		sections = append(sections, spliceSection(kind, calls))
	}
	return sections, nil
}

// trace does some work through a proxy and returns the system calls that moved data.
func (l *lab) trace(ctx context.Context, p proxy, o load.Options, name string) (map[string]callCount, error) {
	file := l.path("strace "+string(o.Kind), ".txt")
	tracer, err := l.launch(ctx, "strace", "", []string{
		"strace", "-f", "-s", "0", "-e", "trace=" + tracedCalls, "-e", "signal=none", "-o", file, "-p", strconv.Itoa(p.pid()),
	})
	if err != nil {
		return nil, err
	}
	if err := tracer.waitAttached(ctx); err != nil {
		return nil, errors.Join(err, l.stop(tracer))
	}
	result, err := load.Run(ctx, p.target(name), o)
	if err := errors.Join(err, result.Err, l.stop(tracer)); err != nil {
		return nil, err
	}
	text, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	return countCalls(text)
}

// waitAttached waits until strace says that it has hold of the process.
func (p *process) waitAttached(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		said, err := os.ReadFile(p.log)
		if err != nil {
			return err
		}
		if bytes.Contains(said, []byte(" attached")) {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("strace ended early: %w\n%s", p.err, said)
		case <-ctx.Done():
			return fmt.Errorf("strace does not attach: %w", ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

func spliceSection(kind load.Kind, calls map[string]callCount) section {
	s := section{
		title:  fmt.Sprintf("splice %s, %d MiB", kind, spliceBytes>>20),
		header: []string{"system call", "calls", "of them without data", "bytes"},
	}
	for name := range strings.SplitSeq(tracedCalls, ",") {
		if c, ok := calls[name]; ok {
			s.rows = append(s.rows, []string{name, fmt.Sprint(c.calls), fmt.Sprint(c.empty), fmt.Sprint(c.bytes)})
		}
	}
	// Each spliced byte counts twice, into the pipe and out of it; each copied one too, when read and when written.
	var copied int64
	for name, c := range calls {
		if name != "splice" {
			copied += c.bytes
		}
	}
	s.bars = []bar{
		{"share of the data not spliced", math.Abs(1 - float64(calls["splice"].bytes)/2/spliceBytes), spliceMissLimit},
		{"share of the data copied", float64(copied) / 2 / spliceBytes, spliceMissLimit},
	}
	return s
}
