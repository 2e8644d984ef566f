package pressure

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var errUnreadable = errors.New("unreadable")

// gauge is a system whose value the test sets.
type gauge struct {
	value uint64
	err   error
	reads int
}

func (g *gauge) read() (uint64, error) {
	g.reads++
	return g.value, g.err
}

// step is one question: at a time since the start, with the system in some state.
type step struct {
	at    time.Duration
	value uint64
	err   error
	want  Answer
	reads int
}

// walk asks the questions in order.
func walk(t *testing.T, g *gauge, steps []step, ask func(now time.Time) Answer) {
	t.Helper()
	start := time.Unix(1000, 0)
	for i, s := range steps {
		g.value, g.err = s.value, s.err
		if got := ask(start.Add(s.at)); got != s.want || g.reads != s.reads {
			t.Errorf("step %d, at %v: got %v after %d readings, want %v after %d", i, s.at, got, g.reads, s.want, s.reads)
		}
	}
}

func TestMemory(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"limit_itself_is_room", []step{{0, 100, nil, Room, 1}}},
		{"one_more_is_not", []step{{0, 101, nil, Full, 1}}},
		{"read_once_a_second", []step{
			{0, 100, nil, Room, 1},
			{999 * ms, 200, nil, Room, 1},
			{1000 * ms, 200, nil, Full, 2},
			{1999 * ms, 0, nil, Full, 2},
			{2000 * ms, 0, nil, Room, 3},
		}},
		{"never_read", []step{
			{0, 0, errUnreadable, Unknown, 1},
			{500 * ms, 0, nil, Unknown, 1}, // a failure is not tried again at once
			{1000 * ms, 0, nil, Room, 2},
		}},
		{"last_value_counts_for_a_while", []step{
			{0, 100, nil, Room, 1},
			{1000 * ms, 0, errUnreadable, Room, 2},
			{9999 * ms, 0, errUnreadable, Room, 3},
			{10000 * ms, 0, errUnreadable, Unknown, 3},
			{11000 * ms, 101, nil, Full, 4},
			{20999 * ms, 0, errUnreadable, Full, 5},
			{21000 * ms, 0, errUnreadable, Unknown, 5},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := new(gauge)
			m := NewMemory(g.read)
			walk(t, g, tc.steps, func(now time.Time) Answer { return m.Ask(now, 100) })
		})
	}
}

func TestFiles(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"room_for_two", []step{{0, 98, nil, Room, 1}}},
		{"room_for_one", []step{{0, 99, nil, Full, 1}}},
		{"more_than_the_limit", []step{{0, 1 << 32, nil, Full, 1}}},
		{"each_counts_for_two", []step{
			{0, 94, nil, Room, 1},
			{1 * ms, 0, nil, Room, 1},
			{4 * ms, 0, nil, Room, 1},
			{4 * ms, 0, nil, Full, 1},
			{104 * ms, 96, nil, Room, 2}, // the reading has them in it
			{104 * ms, 96, nil, Room, 2},
			{104 * ms, 96, nil, Full, 2},
		}},
		{"counted_again_when_in_doubt", []step{
			{0, 98, nil, Room, 1},
			{4 * ms, 98, nil, Full, 1},
			{5 * ms, 98, nil, Room, 2}, // the first is gone
			{9 * ms, 98, nil, Full, 2},
			{10 * ms, 99, nil, Full, 3},
			{15 * ms, 0, errUnreadable, Full, 4},
		}},
		{"refused_ones_count_for_none", []step{
			{0, 99, nil, Full, 1},
			{100 * ms, 98, nil, Room, 2},
		}},
		{"counts_go_on_while_unreadable", []step{
			{0, 96, nil, Room, 1},
			{200 * ms, 0, errUnreadable, Room, 2},
			{400 * ms, 0, errUnreadable, Full, 3},
			{10 * time.Second, 0, errUnreadable, Unknown, 4},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := new(gauge)
			f := NewFiles(g.read)
			walk(t, g, tc.steps, func(now time.Time) Answer { return f.Take(now, 100) })
		})
	}
}

// TestFilesInACrowd checks that no more are let in at once than there is room for.
func TestFilesInACrowd(t *testing.T) {
	f := NewFiles(func() (uint64, error) { return 80, nil })
	now := time.Unix(1000, 0)
	var room atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if f.Take(now, 100) == Room {
					room.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if got := room.Load(); got != 10 {
		t.Errorf("got %d let in, want 10", got)
	}
}

// TestSystem checks that what the system says is sensible, where it says anything.
func TestSystem(t *testing.T) {
	if runtime.GOOS != "linux" {
		if _, err := ResidentMemory(); err == nil {
			t.Error("got a reading of memory on a system without /proc")
		}
		return
	}
	total, err := TotalMemory()
	used, usedErr := ResidentMemory()
	if err != nil || usedErr != nil || used < 1<<20 || used > total {
		t.Errorf("memory: got %d, %v of %d, %v", used, usedErr, total, err)
	}
	limit, err := MaxFiles()
	open, openErr := OpenFiles()
	if err != nil || openErr != nil || open < 3 || open > limit {
		t.Errorf("files: got %d, %v of %d, %v", open, openErr, limit, err)
	}
}

func BenchmarkMemory(b *testing.B) {
	b.ReportAllocs()
	m := NewMemory(ResidentMemory)
	for b.Loop() {
		m.Ask(time.Now(), 1<<40)
	}
}

func BenchmarkFiles(b *testing.B) {
	b.ReportAllocs()
	f := NewFiles(OpenFiles)
	for b.Loop() {
		f.Take(time.Now(), 1<<40)
	}
}

// BenchmarkReadings is what one look at the system costs.
func BenchmarkReadings(b *testing.B) {
	for name, read := range map[string]func() (uint64, error){"memory": ResidentMemory, "files": OpenFiles} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
