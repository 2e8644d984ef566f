package pressure

import (
	"strings"
	"testing"
)

func TestParseSize(t *testing.T) {
	for _, tc := range []struct {
		text  string
		total uint64
		want  uint64
		err   string
	}{
		{"1", 0, 1, ""},
		{"2GiB", 0, 2 << 30, ""},
		{"2GB", 0, 2e9, ""},
		{"80%", 1000, 800, ""},
		{"100%", 1000, 1000, ""},
		{"0.5%", 1000, 5, ""},
		{"80%", 0, 0, ""},
		{"", 0, 0, "neither a size"},
		{"0", 0, 0, "neither a size"},
		{"-1", 0, 0, "neither a size"},
		{"much", 0, 0, "neither a size"},
		{"16EiB", 0, 0, "neither a size"},
		{"0%", 0, 0, "out of range, more than 0% to 100%"},
		{"-5%", 0, 0, "out of range"},
		{"100.1%", 0, 0, "out of range"},
		{"NaN%", 0, 0, "no share"},
		{"%", 0, 0, "no share"},
		{"1e999%", 0, 0, "no share"},
	} {
		got, err := ParseSize(tc.text)
		check(t, tc.text, got.Of(tc.total), tc.want, err, tc.err)
	}
}

func TestParseCount(t *testing.T) {
	for _, tc := range []struct {
		text  string
		limit uint64
		want  uint64
		err   string
	}{
		{"0", 1000, 0, ""},
		{"10", 1000, 10, ""},
		{"2000", 1000, 2000, ""}, // for the caller to refuse
		{"5%", 1_000_000, 50_000, ""},
		{"5%", 1024, 64, ""},
		{"5%", 1280, 64, ""},
		{"5%", 1300, 65, ""},
		{"5%", 100, 50, ""},
		{"50%", 1024, 512, ""},
		{"5%", 0, 0, ""},
		{"51%", 0, 0, "out of range, more than 0% to 50%"},
		{"0%", 0, 0, "out of range"},
		{"-1", 0, 0, "neither a number"},
		{"1.5", 0, 0, "neither a number"},
		{"", 0, 0, "neither a number"},
	} {
		got, err := ParseCount(tc.text)
		check(t, tc.text, got.Reserve(tc.limit), tc.want, err, tc.err)
	}
}

// check compares an amount and an error with what is wanted; no text means no error.
func check(t *testing.T, text string, got, want uint64, err error, wantErr string) {
	t.Helper()
	if (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
		t.Errorf("%q: got error %v, want one with %q", text, err, wantErr)
	}
	if err == nil && got != want {
		t.Errorf("%q: got %d, want %d", text, got, want)
	}
}
