package main

import (
	"maps"
	"strings"
	"testing"

	"github.com/caddy-sluice/sluice/bench/internal/load"
)

const traced = `4242  splice(9, NULL, 12, NULL, 1048576, SPLICE_F_NONBLOCK <unfinished ...>
4243  read(5, ""..., 8)         = 8
4242  <... splice resumed>)             = 65536
4242  splice(11, NULL, 10, NULL, 65536, SPLICE_F_NONBLOCK) = 65536
4242  splice(9, NULL, 12, NULL, 1048576, SPLICE_F_NONBLOCK) = -1 EAGAIN (Resource temporarily unavailable)
4243  read(9, "", 4096) = 0
4244  write(7, " = 99"..., 5) = 5
4244  recvmsg(3, {msg_name=NULL, msg_iov=[{iov_base=""..., iov_len=5}]}, 0) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)
4245  +++ exited with 0 +++
`

func TestCountCalls(t *testing.T) {
	got, err := countCalls(strings.NewReader(traced))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]callCount{"splice": {3, 1, 131072}, "read": {2, 1, 8}, "write": {1, 0, 5}}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSpliceSection(t *testing.T) {
	tests := []struct {
		name  string
		calls map[string]callCount
		want  bool
	}{
		{"all spliced", map[string]callCount{"splice": {300, 9, 2 * spliceBytes}, "read": {9, 1, 4096}}, true},
		{"the first 1 % copied", map[string]callCount{
			"splice": {300, 9, 2 * spliceBytes / 100 * 99}, "read": {9, 1, spliceBytes / 100}, "write": {9, 1, spliceBytes / 100},
		}, true},
		{"all copied", map[string]callCount{"read": {300, 9, spliceBytes}, "write": {300, 0, spliceBytes}}, false},
		{"a tenth copied", map[string]callCount{
			"splice": {300, 9, 2 * spliceBytes / 10 * 9}, "read": {9, 1, spliceBytes / 10}, "write": {9, 1, spliceBytes / 10},
		}, false},
		{"nothing seen", nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := spliceSection(load.Down, tt.calls)
			if got := s.bars[0].met() && s.bars[1].met(); got != tt.want {
				t.Errorf("got %v for %+v, want %v", got, s.bars, tt.want)
			}
			if len(s.rows) != len(tt.calls) {
				t.Errorf("got %d rows, want %d", len(s.rows), len(tt.calls))
			}
		})
	}
}
