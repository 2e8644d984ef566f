package bodypipe

import (
	"math/bits"
	"sync"

	"github.com/caddy-sluice/sluice/internal/permit"
)

// Budget is what all pipes together may hold. The gauge is shared and lives as long as the process; the limit is policy.
type Budget struct {
	// Held counts bytes. It is needed by every pipe that may hold some.
	Held *permit.Gauge
	// Limit is the most bytes that are held. 0 is none: they are counted only.
	Limit int64
}

func (b Budget) take(n int64) error {
	if !b.Held.TryAcquire(n, b.Limit) {
		return ErrBudget
	}
	return nil
}

// Blocks have a power of two bytes. The smallest is small, so that many slow clients hold little; blocks above the
// largest pooled one are so rare, and so much memory, that the garbage collector has them back at once.
const (
	minBlockBits    = 9
	maxPooledBits   = 22
	minBlock        = 1 << minBlockBits
	maxPooledBlock  = 1 << maxPooledBits
	pooledSizeCount = maxPooledBits - minBlockBits + 1
)

// block is memory from the pools. It is a pointer in them, so that putting it back allocates nothing.
type block struct{ mem []byte }

// blocks has a pool for each size.
var blocks [pooledSizeCount]sync.Pool

// blockSize returns the size of the block for n bytes, of a buffer that never holds more than most: the next power of
// two. A block too large for the pools needn't be larger than most.
func blockSize(n, most int64) int64 {
	size := max(int64(1)<<bits.Len64(uint64(n-1)), minBlock)
	if size > maxPooledBlock {
		size = min(size, max(n, most))
	}
	return size
}

// pool returns the pool for blocks of a size, nil if they are not pooled.
func pool(size int) *sync.Pool {
	if size > maxPooledBlock {
		return nil
	}
	return &blocks[bits.Len(uint(size))-1-minBlockBits]
}

func newBlock(size int64) *block {
	if from := pool(int(size)); from != nil {
		if b, ok := from.Get().(*block); ok {
			return b
		}
	}
	return &block{make([]byte, size)}
}

func (b *block) free() {
	if to := pool(len(b.mem)); to != nil {
		to.Put(b)
	}
}

// buffer holds bytes in one block, which it exchanges for one of twice the size when it is full. So it never has more
// than twice what it holds, or minBlock. The budget is asked for each block before it is made; while bytes move from one
// to the next both count. The zero value is an empty buffer without a block.
type buffer struct {
	block *block
	n     int
}

func (b *buffer) bytes() []byte {
	if b.block == nil {
		return nil
	}
	return b.block.mem[:b.n:b.n]
}

// add appends data. most is the most that the buffer will ever hold.
func (b *buffer) add(data []byte, most int64, budget Budget) error {
	if len(data) == 0 {
		return nil
	}
	if need := b.n + len(data); b.block == nil || need > len(b.block.mem) {
		if err := b.grow(int64(need), most, budget); err != nil {
			return err
		}
	}
	b.n += copy(b.block.mem[b.n:], data)
	return nil
}

func (b *buffer) grow(need, most int64, budget Budget) error {
	size := blockSize(need, most)
	if err := budget.take(size); err != nil {
		return err
	}
	larger := newBlock(size)
	n := copy(larger.mem, b.bytes())
	b.free(budget)
	b.block, b.n = larger, n
	return nil
}

// free gives the block back. Nobody may look at bytes of it afterwards.
func (b *buffer) free(budget Budget) {
	if b.block == nil {
		return
	}
	budget.Held.Release(int64(len(b.block.mem)))
	b.block.free()
	*b = buffer{}
}
