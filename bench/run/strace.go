package main

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// callCount sums up one system call: how often it was made, how often it moved nothing (an error, or the end), and how many
// bytes it moved.
type callCount struct {
	calls, empty, bytes int64
}

// countCalls reads what strace -f -o wrote. A call that was interrupted by another thread's has two lines, of which the second
// holds the result:
//
//	4242  splice(9, NULL, 12, NULL, 1048576, SPLICE_F_NONBLOCK <unfinished ...>
//	4243  read(5, ""..., 8) = 8
//	4242  <... splice resumed>) = 65536
func countCalls(text io.Reader) (map[string]callCount, error) {
	counts := map[string]callCount{}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		name, result, ok := parseCall(lines.Text())
		if !ok {
			continue
		}
		c := counts[name]
		c.calls++
		c.bytes += max(result, 0)
		if result <= 0 {
			c.empty++
		}
		counts[name] = c
	}
	return counts, lines.Err()
}

// parseCall returns the name and the result of a finished call; ok is false for other lines.
func parseCall(line string) (name string, result int64, ok bool) {
	_, call, _ := strings.Cut(line, " ")
	call = strings.TrimLeft(call, " ")
	if resumed, found := strings.CutPrefix(call, "<... "); found {
		name, _, ok = strings.Cut(resumed, " resumed>")
	} else {
		name, _, ok = strings.Cut(call, "(")
	}
	end := strings.LastIndex(call, " = ")
	if !ok || end < 0 {
		return "", 0, false
	}
	number, _, _ := strings.Cut(call[end+len(" = "):], " ")
	result, err := strconv.ParseInt(number, 10, 64)
	return name, result, err == nil
}
