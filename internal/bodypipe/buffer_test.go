package bodypipe

import (
	"bytes"
	"errors"
	"testing"

	"github.com/caddy-sluice/sluice/internal/permit"
)

func newBudget(limit int64) Budget { return Budget{Held: new(permit.Gauge), Limit: limit} }

// wantHeld checks what the budget counts.
func wantHeld(t *testing.T, b Budget, want int64) {
	t.Helper()
	if got := b.Held.Load(); got != want {
		t.Fatalf("got %d bytes held, want %d", got, want)
	}
}

func TestBlockSize(t *testing.T) {
	for _, tt := range []struct{ n, most, want int64 }{
		{1, mib, 512},
		{512, mib, 512},
		{513, mib, kib},
		{kib, mib, kib},
		{kib + 1, kib + 1, 2 * kib},
		{mib - 1, mib, mib},
		{mib, mib, mib},
		{mib + 1, 10 * mib, 2 * mib},
		{9 * mib, 10 * mib, 10 * mib},
		{10 * mib, 10 * mib, 10 * mib},
		{10*mib + 5, 10 * mib, 10*mib + 5}, // the chunk that was released with it
		{33 * mib, 64 * mib, 64 * mib},
	} {
		if got := blockSize(tt.n, tt.most); got != tt.want {
			t.Errorf("%d of %d: got %d, want %d", tt.n, tt.most, got, tt.want)
		}
	}
}

// TestBufferHoldsAtMostTwice fills a buffer in small steps, as a slow client does.
func TestBufferHoldsAtMostTwice(t *testing.T) {
	const most = 3 * mib
	budget := newBudget(0)
	var b buffer
	var want []byte
	for i := 0; len(want) < most; i++ {
		part := bytes.Repeat([]byte{byte(i)}, min(1+i*7, most-len(want)))
		if err := b.add(part, most, budget); err != nil {
			t.Fatal(err)
		}
		want = append(want, part...)
		held := budget.Held.Load()
		if held != int64(len(b.block.mem)) || held > int64(max(minBlock, 2*len(want))) {
			t.Fatalf("got %d bytes held in a block of %d for %d bytes, want twice at most", held, len(b.block.mem), len(want))
		}
	}
	if !bytes.Equal(b.bytes(), want) {
		t.Error("got other bytes than were added")
	}
	b.free(budget)
	b.free(budget)
	wantHeld(t, budget, 0)
	if b.bytes() != nil {
		t.Errorf("got %d bytes of an empty buffer", len(b.bytes()))
	}
}

// TestBufferAsksFirst has a budget for exactly one block, and for one that moves to the next.
func TestBufferAsksFirst(t *testing.T) {
	for _, tt := range []struct {
		limit int64
		want  error
		held  int64
	}{
		{511, ErrBudget, 0},
		{512, ErrBudget, 512},
		{512 + 1023, ErrBudget, 512},
		{512 + 1024, nil, 1024},
	} {
		budget := newBudget(tt.limit)
		var b buffer
		err := b.add(make([]byte, 512), mib, budget)
		if err == nil {
			err = b.add([]byte("x"), mib, budget)
		}
		if !errors.Is(err, tt.want) {
			t.Errorf("limit %d: got %v, want %v", tt.limit, err, tt.want)
		}
		wantHeld(t, budget, tt.held)
		b.free(budget)
		wantHeld(t, budget, 0)
	}
}

// TestPoolsKeepSizes checks that a block comes back from the pool of its own size only.
func TestPoolsKeepSizes(t *testing.T) {
	for range 3 {
		for size := int64(minBlock); size <= 2*maxPooledBlock; size *= 2 {
			b := newBlock(size)
			if int64(len(b.mem)) != size {
				t.Fatalf("got a block of %d, want %d", len(b.mem), size)
			}
			b.free()
		}
	}
	if pool(maxPooledBlock+1) != nil || pool(maxPooledBlock) != &blocks[len(blocks)-1] || pool(minBlock) != &blocks[0] {
		t.Error("got a wrong pool")
	}
}
