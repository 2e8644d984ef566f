package load

import (
	"context"
	"fmt"
	"io"
	"time"
)

// openAndClose is a worker of Rate.
func (r *run) openAndClose(ctx context.Context) error {
	reply := make([]byte, r.Reply)
	var latencies []time.Duration
	defer func() { r.record(latencies) }()
	for r.take(ctx) {
		start := time.Now()
		if err := r.openOnce(ctx, reply); err != nil {
			r.fail(err)
			continue
		}
		latencies = append(latencies, time.Since(start))
		r.units.Add(1)
	}
	return nil
}

func (r *run) openOnce(ctx context.Context, reply []byte) error {
	c, err := r.dial(ctx, cmdTiny, r.Reply)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	_, err = io.ReadFull(c, reply)
	return err
}

// share is the part of the bytes that each connection moves.
func (r *run) share() int64 {
	return r.Bytes / int64(r.Conns)
}

// download is a worker of Down.
func (r *run) download(ctx context.Context) error {
	c, err := r.dial(ctx, cmdDown, r.share())
	if err != nil {
		return err
	}
	defer c.Close()
	n, err := discard(c, r.share())
	r.units.Add(n)
	return err
}

// upload is a worker of Up. It waits for the backend's word that all has arrived.
func (r *run) upload(ctx context.Context) error {
	c, err := r.dial(ctx, cmdUp, r.share())
	if err != nil {
		return err
	}
	defer c.Close()
	if err := fill(c, r.share()); err != nil {
		return err
	}
	var done [1]byte
	if _, err := io.ReadFull(c, done[:]); err != nil {
		return err
	}
	r.units.Add(r.share())
	return nil
}

// pingPong is a worker of PingPong.
func (r *run) pingPong(ctx context.Context) error {
	c, err := r.dial(ctx, cmdEcho, 0)
	if err != nil {
		return err
	}
	defer c.Close()
	message := make([]byte, r.Message)
	var latencies []time.Duration
	defer func() { r.record(latencies) }()
	for r.take(ctx) {
		start := time.Now()
		if _, err := c.Write(message); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, message); err != nil {
			return err
		}
		latencies = append(latencies, time.Since(start))
		r.units.Add(1)
	}
	return nil
}

// discard reads exactly n bytes and returns how many there were.
func discard(from io.Reader, n int64) (int64, error) {
	buffer := chunks.Get().(*[chunk]byte)
	defer chunks.Put(buffer)
	var done int64
	for done < n {
		m, err := from.Read(buffer[:min(chunk, n-done)])
		done += int64(m)
		if err != nil && done < n {
			return done, fmt.Errorf("after %d of %d bytes: %w", done, n, err)
		}
	}
	return done, nil
}

// fill writes n bytes.
func fill(to io.Writer, n int64) error {
	buffer := chunks.Get().(*[chunk]byte)
	defer chunks.Put(buffer)
	for n > 0 {
		m, err := to.Write(buffer[:min(chunk, n)])
		if err != nil {
			return err
		}
		n -= int64(m)
	}
	return nil
}
