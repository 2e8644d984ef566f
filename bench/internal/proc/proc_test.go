package proc

import (
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	tests := []struct {
		name, text string
		want       stat
	}{
		{
			"plain",
			"4242 (sluice) S 17 4242 4242 0 -1 4194560 9000 0 3 0 250 125 0 0 20 0 9 0 123456 99 88 18446744073709551615",
			stat{17, 2500 * time.Millisecond, 1250 * time.Millisecond},
		},
		{
			"blanks and parentheses in the command",
			"7 (a) b (c) R 1 7 7 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 5 6 7",
			stat{1, 10 * time.Millisecond, 20 * time.Millisecond},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStat([]byte(tt.text))
			if err != nil || got != tt.want {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
		})
	}
	for _, bad := range []string{"", "1 (x) S 2", "1 (x) S a 1 1 0 -1 0 0 0 0 0 1 2 0 0", "1 (x) S 1 1 1 0 -1 0 0 0 0 0 1 z 0"} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q: got %v, want an error", bad, got)
		}
	}
}

func TestParseKiB(t *testing.T) {
	text := "55d0a0000000-7ffd0a1ff000 ---p 00000000 00:00 0  [rollup]\n" +
		"Rss:               61236 kB\nPss:               50012 kB\nPss_Anon:          40000 kB\nTHPeligible:  0\nSUnreclaim: x kB\n"
	got := parseKiB([]byte(text))
	want := map[string]int64{"Rss": 61236, "Pss": 50012, "Pss_Anon": 40000}
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: got %d, want %d", name, got[name], value)
		}
	}
}

func TestSub(t *testing.T) {
	got := CPU{10, 7, 3}.Sub(CPU{4, 3, 1})
	if want := (CPU{6, 4, 2}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
