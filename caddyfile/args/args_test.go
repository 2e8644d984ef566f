package args

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// at returns a dispenser that stands on the first word of the second line.
func at(line string) *caddyfile.Dispenser {
	d := caddyfile.NewTestDispenser("first\n" + line)
	d.Next()
	d.Next()
	return d
}

// read calls one of the functions, as text.
func read(function string, d *caddyfile.Dispenser) (string, error) {
	switch function {
	case "None":
		return "", None(d)
	case "One":
		return One(d)
	case "Many":
		values, err := Many(d)
		return strings.Join(values, "|"), err
	case "Duration":
		value, err := Duration(d)
		return time.Duration(value).String(), err
	case "DurationOrOff":
		value, err := DurationOrOff(d)
		return time.Duration(value).String(), err
	case "DurationIn":
		value, err := DurationIn(d, time.Second, time.Hour)
		return time.Duration(value).String(), err
	case "BytesIn":
		value, err := BytesIn(d, 2, 64<<20)
		return fmt.Sprint(value), err
	case "Bytes":
		value, err := Bytes(d)
		return fmt.Sprint(value), err
	case "Int":
		value, err := Int(d)
		return fmt.Sprint(value), err
	case "Number":
		value, err := Number(d, 1, 10)
		return fmt.Sprint(value), err
	case "Bytes from 0":
		value, err := BytesIn(d, 0, 10)
		return fmt.Sprint(value), err
	case "Word":
		return Word(d, "up", "down")
	case "Share":
		return Share(d)
	case "PercentOrNumber":
		value, err := PercentOrNumber(d, 1, 200)
		return fmt.Sprint(value), err
	case "Percent":
		value, err := Percent(d, 1, 200)
		return fmt.Sprint(value), err
	}
	panic(function)
}

func TestArguments(t *testing.T) {
	for _, tc := range []struct{ function, line, want string }{
		{"None", "opt", ""},
		{"None", "opt\nnext", ""},
		{"One", "opt value", "value"},
		{"One", `opt "two words"`, "two words"},
		{"One", `opt ""`, ""},
		{"Many", "opt a", "a"},
		{"Many", "opt a b c", "a|b|c"},
		{"Many", "opt a b\nc", "a|b"},
		{"Duration", "opt 5s", "5s"},
		{"Duration", "opt 1d12h", "36h0m0s"},
		{"Duration", "opt 1ns", "1ns"},
		{"DurationOrOff", "opt 5s", "5s"},
		{"DurationOrOff", "opt off", "-1ns"},
		{"DurationIn", "opt 1s", "1s"},
		{"DurationIn", "opt 1h", "1h0m0s"},
		{"BytesIn", "opt 2", "2"},
		{"BytesIn", "opt 64MiB", "67108864"},
		{"Bytes", "opt 65536", "65536"},
		{"Bytes", "opt 64KiB", "65536"},
		{"Bytes", "opt 64kib", "65536"},
		{"Bytes", "opt 64KB", "64000"},
		{"Bytes", "opt 1", "1"},
		{"Bytes", `opt "32 KiB"`, "32768"},
		{"Int", "opt 1", "1"},
		{"Int", "opt 9223372036854775807", "9223372036854775807"},
		{"Number", "opt 1", "1"},
		{"Number", "opt 10", "10"},
		{"Percent", "opt 1%", "1"},
		{"Percent", "opt 200%", "200"},
		{"Percent", "opt 20 %", "20"},
		{"PercentOrNumber", "opt 20", "20"},
		{"PercentOrNumber", "opt 20%", "20"},
		{"PercentOrNumber", "opt 20 %", "20"},
		{"Share", "opt 80 %", "80%"},
		{"Share", "opt 80%", "80%"},
		{"Share", "opt 1GiB", "1GiB"},
		{"Bytes from 0", "opt 0", "0"},
		{"Word", "opt down", "down"},
	} {
		t.Run(tc.function+"/"+tc.line, func(t *testing.T) {
			if got, err := read(tc.function, at(tc.line)); got != tc.want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// TestErrors checks that each error names the option and says where in which file it stands.
func TestErrors(t *testing.T) {
	for _, tc := range []struct{ function, line, want string }{
		{"None", "opt value", `opt takes no argument, got "value"`},
		{"None", "opt {\nx\n}", "opt takes no block"},
		{"One", "opt", "opt needs an argument"},
		{"One", "opt\nnext", "opt needs an argument"},
		{"One", "opt a b", `opt takes one argument, got also "b"`},
		{"Many", "opt", "opt needs at least one argument"},
		{"Many", "opt\nnext", "opt needs at least one argument"},
		{"Duration", "opt", "opt needs an argument"},
		{"Duration", "opt 5", `opt: "5" is not a duration, such as 30s`},
		{"Duration", "opt soon", `opt: "soon" is not a duration, such as 30s`},
		{"DurationIn", "opt", "opt needs an argument"},
		{"DurationIn", "opt 5", `opt: "5" is not a duration, such as 30s`},
		{"DurationIn", "opt 999ms", `opt: "999ms" is out of range, 1s to 1h0m0s`},
		{"DurationIn", "opt 61m", `opt: "61m" is out of range, 1s to 1h0m0s`},
		{"BytesIn", "opt 1", `opt: "1" is out of range, 2 to 67108864 (64MiB)`},
		{"BytesIn", "opt 65MiB", `opt: "65MiB" is out of range, 2 to 67108864 (64MiB)`},
		{"BytesIn", "opt much", `opt: "much" is not a size`},
		{"Duration", "opt 0s", `opt: "0s" is not a positive duration`},
		{"Duration", "opt -1s", `opt: "-1s" is not a positive duration`},
		{"Duration", "opt 1s 2s", `opt takes one argument, got also "2s"`},
		{"DurationOrOff", "opt", "opt needs an argument"},
		{"DurationOrOff", "opt -1ns", `opt: "-1ns" is neither a positive duration nor off`},
		{"DurationOrOff", "opt none", "opt: "},
		{"Bytes", "opt", "opt needs an argument"},
		{"Bytes", "opt much", "opt: "},
		{"Bytes", "opt -1", "opt: "},
		{"Bytes", "opt 0", `opt: "0" is out of range, at least 1`},
		{"Bytes", "opt 0KiB", `opt: "0KiB" is out of range`},
		{"Bytes", "opt 0.5", `opt: "0.5" is out of range`},
		{"Bytes", "opt 9223372036854775808", `opt: "9223372036854775808" is out of range`},
		{"Bytes", "opt 100EiB", "opt: "},
		{"Bytes", "opt 1 2", `opt takes one argument, got also "2"`},
		{"Int", "opt", "opt needs an argument"},
		{"Int", "opt 0", `opt: "0" is not a positive number`},
		{"Int", "opt -1", `opt: "-1" is not a positive number`},
		{"Int", "opt 1.5", `opt: "1.5" is not a positive number`},
		{"Int", "opt 9223372036854775808", "is not a positive number"},
		{"Int", "opt 1 2", `opt takes one argument, got also "2"`},
		{"Number", "opt", "opt needs an argument"},
		{"Number", "opt 0", `opt: "0" is out of range, 1 to 10`},
		{"Number", "opt 11", `opt: "11" is out of range, 1 to 10`},
		{"Number", "opt 1.5", `opt: "1.5" is not a number`},
		{"Number", "opt 99999999999999999999", `opt: "99999999999999999999" is not a number`},
		{"Number", "opt 1 2", `opt takes one argument, got also "2"`},
		{"Percent", "opt", "opt needs an argument"},
		{"Percent", "opt 20", `opt: "20" has no percent sign: write 20%`},
		{"Percent", "opt %", `opt: "%" is not a percentage from 1% to 200%`},
		{"Percent", "opt 1.5%", `opt: "1.5%" is not a percentage from 1% to 200%`},
		{"Percent", "opt 0%", `opt: "0%" is out of range, 1% to 200%`},
		{"Percent", "opt 201%", `opt: "201%" is out of range, 1% to 200%`},
		{"Percent", "opt 1% 2%", `opt takes one argument, got also "2%"`},
		{"Percent", "opt 1 % 2", `opt takes one argument, got also "%"`},
		{"Percent", "opt 1% %", `opt: "1%%" is not a percentage`},
		{"PercentOrNumber", "opt x", `opt: "x" is not a percentage from 1% to 200%`},
		{"PercentOrNumber", "opt 0", `opt: "0" is out of range, 1% to 200%`},
		{"Share", "opt", "opt needs an argument"},
		{"Share", "opt 1 2", `opt takes one argument, got also "2"`},
		{"Bytes from 0", "opt -1", "opt: "},
		{"Word", "opt", "opt needs an argument"},
		{"Word", "opt Up", `opt: "Up" is not known; must be one of up, down`},
		{"Word", "opt up down", `opt takes one argument, got also "down"`},
	} {
		t.Run(tc.function+"/"+tc.line, func(t *testing.T) {
			_, err := read(tc.function, at(tc.line))
			checkError(t, err, tc.want, 2+strings.Count(tc.line, "{")) // a block's error is where its first word is
		})
	}
}

// checkError checks that an error has this text, and the place.
func checkError(t *testing.T, err error, want string, line int) {
	t.Helper()
	place := fmt.Sprintf("Testfile:%d", line)
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), place) {
		t.Errorf("got error %v, want one with %q and %s", err, want, place)
	}
}

// TestNoBlock checks that a block is refused, and that its absence leaves the dispenser where it is.
func TestNoBlock(t *testing.T) {
	d := at("opt value {\nx\n}")
	d.NextArg()
	checkError(t, NoBlock(d, "opt"), "opt takes no block", 3)

	d = at("opt value\nnext")
	d.NextArg()
	if err := NoBlock(d, "opt"); err != nil || d.Val() != "value" {
		t.Errorf("got %v at %q, want no error at value", err, d.Val())
	}
}

// TestOnce checks that the second of two equal options is refused.
func TestOnce(t *testing.T) {
	d := caddyfile.NewTestDispenser("a\nb\na")
	var options once
	var got []string
	for d.Next() {
		if err := options.check(d); err != nil {
			got = append(got, err.Error())
		}
	}
	if len(got) != 1 || !strings.Contains(got[0], "a is given twice") || !strings.Contains(got[0], "Testfile:3") {
		t.Errorf("got errors %q, want one about a at Testfile:3", got)
	}
}

// TestBlock checks a block of options: each once, but those that may repeat, and no argument in front.
func TestBlock(t *testing.T) {
	for _, tc := range []struct{ lines, want string }{
		{"opt", ""},
		{"opt {\n a 1\n b 2\n}", "a 1|b 2"},
		{"opt {\n b 1\n b 2\n}", "b 1|b 2"},
		{"opt {\n a 1\n a 2\n}", "a is given twice"},
		{"opt x", `opt takes no argument, got "x"`},
		{"opt x {\n a 1\n}", `opt takes no argument, got "x"`},
		{"opt {\n a\n}", "a needs an argument"},
	} {
		var got []string
		err := Block(at(tc.lines), func(d *caddyfile.Dispenser) error {
			name := d.Val()
			value, err := One(d)
			got = append(got, name+" "+value)
			return err
		}, "b")
		if err != nil && !strings.Contains(err.Error(), tc.want) || err == nil && strings.Join(got, "|") != tc.want {
			t.Errorf("%q: got %q, %v, want %q", tc.lines, got, err, tc.want)
		}
	}
}

// TestExtract checks that options of ours are read from among those of a module, and that the module gets the rest.
func TestExtract(t *testing.T) {
	for _, tc := range []struct{ text, rest, read string }{
		{"http", "http", ""},
		{"http /a b", "http /a b", ""},
		{"http /a {\nours 1\n}", "http /a", "1"},
		{"http /a {\nheader A {\nours 9\n}\nours 1\nport 80\n}", "http /a { header A { ours 9 } port 80 }", "1"},
		{"http {\nport 80\n}", "http { port 80 }", ""},
	} {
		d := caddyfile.NewTestDispenser(tc.text + "\nnext")
		d.Next()
		read := ""
		rest, err := Extract(d, func(d *caddyfile.Dispenser) (err error) {
			read, err = One(d)
			return err
		}, "ours")
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for rest.Next() {
			words = append(words, rest.Val())
		}
		if got := strings.Join(words, " "); got != tc.rest || read != tc.read {
			t.Errorf("%q: got %q left, and %q read, want %q and %q", tc.text, got, read, tc.rest, tc.read)
		}
		if !d.Next() || d.Val() != "next" {
			t.Errorf("%q: got %q next", tc.text, d.Val())
		}
	}
	for text, want := range map[string]struct {
		err  string
		line int
	}{
		"http {\nours 1\nours 2\n}": {"ours is given twice", 3},
		"http {\n\nours\n}":         {"ours needs an argument", 3},
	} {
		d := caddyfile.NewTestDispenser(text)
		d.Next()
		_, err := Extract(d, func(d *caddyfile.Dispenser) error { _, err := One(d); return err }, "ours")
		checkError(t, err, want.err, want.line)
	}
}

// TestModule checks that a module is written down with its name, and that one that can't be is an error.
func TestModule(t *testing.T) {
	d := at("check http")
	raw, err := Module(d, map[string]any{"path": "/up"}, "type", "http")
	if want := `{"path":"/up","type":"http"}`; err != nil || string(raw) != want {
		t.Errorf("got %s, %v, want %s", raw, err, want)
	}
	_, err = Module(d, map[string]any{"share": math.NaN()}, "type", "http")
	checkError(t, err, `type "http": json: unsupported value: NaN`, 2)
}
