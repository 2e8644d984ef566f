package clusterproxy

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestKeeper checks what of a body can be sent again after so much of it was read.
func TestKeeper(t *testing.T) {
	for _, tc := range []struct {
		name          string
		body          string
		length, limit int64
		read          int
		repeatable    bool
	}{
		{"untouched", "hello", 5, 5, 0, true},
		{"untouched_without_a_limit", "hello", 5, 0, 0, true},
		{"some", "hello", 5, 5, 2, true},
		{"all", "hello", 5, 5, 5, true},
		{"all_of_unknown_length", "hello", -1, 5, 5, true},
		{"some_of_what_is_too_long", "hello", 5, 4, 1, false},
		{"within_the_limit_of_unknown_length", "hello", -1, 4, 4, true},
		{"beyond_the_limit_of_unknown_length", "hello", -1, 4, 5, false},
		{"without_a_limit", "hello", 5, 0, 1, false},
		{"end_at_the_limit", "hello", -1, 5, 6, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKeeper(strings.NewReader(tc.body), tc.length, tc.limit)
			if n, err := io.ReadFull(k.reader(nil), make([]byte, tc.read)); n != min(tc.read, len(tc.body)) {
				t.Fatalf("got %d bytes, %v", n, err)
			}
			if got := k.repeatable(); got != tc.repeatable {
				t.Errorf("got repeatable %v, want %v", got, tc.repeatable)
			}
			got, err := io.ReadAll(k.reader(nil))
			if tc.repeatable && (string(got) != tc.body || err != nil) {
				t.Errorf("got %q, %v, want the whole body", got, err)
			}
			if !tc.repeatable && !errors.Is(err, errBodyLost) {
				t.Errorf("got %q, %v, want an error", got, err)
			}
		})
	}
}

// TestKeeperErrors checks whose fault a body is that ends too early.
func TestKeeperErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct {
		name   string
		src    io.Reader
		length int64
		want   error
	}{
		{"whole", strings.NewReader("hello"), 5, nil},
		{"short", strings.NewReader("hell"), 5, io.ErrUnexpectedEOF},
		{"broken", io.MultiReader(strings.NewReader("he"), iotest.ErrReader(broken)), 5, broken},
		{"unknown_length", strings.NewReader("hello"), -1, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := newKeeper(tc.src, tc.length, 10)
			_, _ = io.Copy(io.Discard, k.reader(nil))
			failed := k.failed.Load()
			if (failed == nil) != (tc.want == nil) || failed != nil && !errors.Is(failed.err, tc.want) {
				t.Errorf("got %v, want %v", failed, tc.want)
			}
		})
	}
}

// TestAbandonedReader checks that what a reader gets which was given up is there for the next.
func TestAbandonedReader(t *testing.T) {
	src, client := io.Pipe()
	k := newKeeper(src, 6, 10)
	first, done := k.reader(nil), make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.ReadFull(first, make([]byte, 6))
	}()
	if _, err := client.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	_ = first.Close() // it waits for more
	second := make(chan string)
	go func() {
		all, _ := io.ReadAll(k.reader(nil))
		second <- string(all)
	}()
	if _, err := client.Write([]byte("def")); err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
	<-done
	if got := <-second; got != "abcdef" {
		t.Errorf("got %q, want abcdef", got)
	}
}

// TestReleased checks that a body whose request has ended can't be sent any more, and that its buffer is given back.
func TestReleased(t *testing.T) {
	k := newKeeper(strings.NewReader("hello"), 5, 5)
	_, _ = io.ReadAll(k.reader(nil))
	k.release(nil)
	if k.buf != nil || k.repeatable() {
		t.Errorf("got buffer %v, repeatable %v", k.buf, k.repeatable())
	}
	if _, err := io.ReadAll(k.reader(nil)); !errors.Is(err, errBodyLost) {
		t.Errorf("got %v, want %v", err, errBodyLost)
	}
}

// FuzzKeeper checks that whoever reads a body gets the body or an error, never a part of it that looks whole; that it can be
// read again exactly if the keeper says so; and that no more is kept than may be.
func FuzzKeeper(f *testing.F) {
	f.Add([]byte("hello"), int64(5), true, uint16(2), uint8(3))
	f.Add([]byte("hello"), int64(4), false, uint16(5), uint8(1))
	f.Add([]byte{}, int64(0), false, uint16(1), uint8(1))
	f.Fuzz(func(t *testing.T, body []byte, limit int64, known bool, read uint16, step uint8) {
		limit = max(0, limit%(64<<10))
		length := int64(-1)
		if known {
			length = int64(len(body))
		}
		k := newKeeper(iotest.OneByteReader(bytes.NewReader(body)), length, limit)
		buf := make([]byte, int(step)+1)
		first := k.reader(nil)
		for got := 0; got < int(read); {
			n, err := first.Read(buf[:min(len(buf), int(read)-got)])
			got += n
			if err != nil {
				break
			}
		}
		if k.kept() > limit {
			t.Fatalf("keeps %d bytes, want at most %d", k.kept(), limit)
		}
		repeatable := k.repeatable()
		again, err := io.ReadAll(k.reader(nil))
		if repeatable != (err == nil) || repeatable && !bytes.Equal(again, body) {
			t.Fatalf("got %d bytes, %v, want repeatable %v", len(again), err, repeatable)
		}
		rest, err := io.ReadAll(first)
		if !repeatable && (err != nil || !bytes.HasSuffix(body, rest)) {
			t.Fatalf("the one who reads it first got %q, %v", rest, err)
		}
	})
}
