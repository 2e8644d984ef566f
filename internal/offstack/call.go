// Package offstack keeps the stacks of long-lived goroutines small.
//
// A goroutine keeps the stack that it has needed once, for as long as it lives: the garbage collector shrinks it only
// if it uses less than a quarter. What a connection does in its first milliseconds (reading, parsing, resolving,
// connecting) needs twice the stack of what it then does for hours.
package offstack

import (
	"fmt"
	"runtime/debug"
)

// Call runs f on a goroutine of its own and returns when f has returned. If f panics, so does Call, with f's stack in
// the value.
func Call(f func()) {
	done := make(chan any, 1)
	go run(f, done)
	if p := <-done; p != nil {
		panic(p)
	}
}

// run is the goroutine of Call, which waits for it.
func run(f func(), done chan<- any) {
	defer func() {
		p := recover()
		if p != nil {
			p = fmt.Sprintf("%v\n%s", p, debug.Stack())
		}
		done <- p
	}()
	f()
}
