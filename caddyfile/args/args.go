// Package args reads the arguments of Caddyfile options. Each function stands on the option's name and returns an
// error that carries file and line.
package args

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"
)

// None refuses arguments and a block.
func None(d *caddyfile.Dispenser) error {
	name := d.Val()
	if d.NextArg() {
		return d.Errf("%s takes no argument, got %q", name, d.Val())
	}
	return NoBlock(d, name)
}

// NoBlock refuses a block behind the option called name, once its arguments are read.
func NoBlock(d *caddyfile.Dispenser, name string) error {
	if d.NextBlock(d.Nesting()) {
		return d.Errf("%s takes no block", name)
	}
	return nil
}

// Here returns a dispenser that stays where d stands, for errors about what begins there.
func Here(d *caddyfile.Dispenser) *caddyfile.Dispenser {
	stays := caddyfile.NewDispenser([]caddyfile.Token{d.Token()})
	stays.Next()
	return stays
}

// One returns the option's only argument.
func One(d *caddyfile.Dispenser) (string, error) {
	name := d.Val()
	if !d.NextArg() {
		return "", d.Errf("%s needs an argument", name)
	}
	value := d.Val()
	if d.NextArg() {
		return "", d.Errf("%s takes one argument, got also %q", name, d.Val())
	}
	return value, nil
}

// Share is One, but a percent sign may stand apart: it returns 80% for `80 %`.
func Share(d *caddyfile.Dispenser) (string, error) {
	name := d.Val()
	values := d.RemainingArgs()
	switch {
	case len(values) == 0:
		return "", d.Errf("%s needs an argument", name)
	case len(values) == 2 && values[1] == "%":
		return values[0] + "%", nil
	case len(values) > 1:
		return "", d.Errf("%s takes one argument, got also %q", name, values[1])
	}
	return values[0], nil
}

// Word returns the option's only argument, which is one of words.
func Word(d *caddyfile.Dispenser, words ...string) (string, error) {
	name := d.Val()
	value, err := One(d)
	if err == nil && !slices.Contains(words, value) {
		err = d.Errf("%s: %q is not known; must be one of %s", name, value, strings.Join(words, ", "))
	}
	return value, err
}

// Many returns the option's arguments, at least one.
func Many(d *caddyfile.Dispenser) ([]string, error) {
	name := d.Val()
	values := d.RemainingArgs()
	if len(values) == 0 {
		return nil, d.Errf("%s needs at least one argument", name)
	}
	return values, nil
}

// Duration returns the option's only argument as a duration, "d" for days included. Zero is refused like every value
// that is not positive: in JSON zero stands for the default.
func Duration(d *caddyfile.Dispenser) (caddy.Duration, error) {
	name := d.Val()
	value, err := One(d)
	if err != nil {
		return 0, err
	}
	return duration(d, name, value)
}

// DurationOrOff is Duration, but for the word "off", for which it returns -1.
func DurationOrOff(d *caddyfile.Dispenser) (caddy.Duration, error) {
	name := d.Val()
	value, err := One(d)
	if err != nil {
		return 0, err
	}
	if value == "off" {
		return -1, nil
	}
	if dur, err := caddy.ParseDuration(value); err == nil && dur <= 0 {
		return 0, d.Errf("%s: %q is neither a positive duration nor off", name, value)
	}
	return duration(d, name, value)
}

// duration returns the value of the option called name.
func duration(d *caddyfile.Dispenser, name, value string) (caddy.Duration, error) {
	dur, err := caddy.ParseDuration(value)
	if err != nil {
		return 0, d.Errf("%s: %q is not a duration, such as 30s", name, value)
	}
	if dur <= 0 {
		return 0, d.Errf("%s: %q is not a positive duration", name, value)
	}
	return caddy.Duration(dur), nil
}

// DurationIn is Duration for durations from low to high.
func DurationIn(d *caddyfile.Dispenser, low, high time.Duration) (caddy.Duration, error) {
	name := d.Val()
	value, err := One(d)
	if err != nil {
		return 0, err
	}
	dur, err := caddy.ParseDuration(value)
	if err != nil {
		return 0, d.Errf("%s: %q is not a duration, such as 30s", name, value)
	}
	if dur < low || dur > high {
		return 0, d.Errf("%s: %q is out of range, %v to %v", name, value, low, high)
	}
	return caddy.Duration(dur), nil
}

// Bytes returns the option's only argument as a number of bytes: 65536, 64KiB, 64KB.
func Bytes(d *caddyfile.Dispenser) (int64, error) { return bytes(d, 1, math.MaxInt64, "at least 1") }

// BytesIn is Bytes for numbers from low to high.
func BytesIn(d *caddyfile.Dispenser, low, high uint64) (int64, error) {
	return bytes(d, low, high, fmt.Sprintf("%d to %d (%s)", low, high, strings.ReplaceAll(humanize.IBytes(high), " ", "")))
}

// bytes reads a number of bytes from low to high, which text says in words.
func bytes(d *caddyfile.Dispenser, low, high uint64, text string) (int64, error) {
	name := d.Val()
	value, err := One(d)
	if err != nil {
		return 0, err
	}
	n, err := humanize.ParseBytes(value)
	if err != nil {
		return 0, d.Errf("%s: %q is not a size, such as 32768 or 64KiB", name, value)
	}
	if n < low || n > high {
		return 0, d.Errf("%s: %q is out of range, %s", name, value, text)
	}
	return int64(n), nil
}

// Int returns the option's only argument as a number that is positive: in JSON zero stands for the default.
func Int(d *caddyfile.Dispenser) (int64, error) {
	name := d.Val()
	value, err := One(d)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n <= 0 {
		return 0, d.Errf("%s: %q is not a positive number", name, value)
	}
	return n, nil
}

// Number returns the option's only argument as a number from low to high.
func Number(d *caddyfile.Dispenser, low, high int) (int, error) {
	name := d.Val()
	value, err := One(d)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		return 0, d.Errf("%s: %q is not a number from %d to %d", name, value, low, high)
	}
	if n < low || n > high {
		return 0, d.Errf("%s: %q is out of range, %d to %d", name, value, low, high)
	}
	return n, nil
}

// Percent returns the option's only argument as a number of percent from low to high. It ends with a percent sign, which
// may stand apart.
func Percent(d *caddyfile.Dispenser, low, high int) (int, error) {
	return percent(d, low, high, true)
}

// PercentOrNumber is Percent for options that have percent in their name: the sign may be left out.
func PercentOrNumber(d *caddyfile.Dispenser, low, high int) (int, error) {
	return percent(d, low, high, false)
}

// percent reads a percentage, which needs a sign or doesn't.
func percent(d *caddyfile.Dispenser, low, high int, needsSign bool) (int, error) {
	name := d.Val()
	value, err := Share(d)
	if err != nil {
		return 0, err
	}
	digits, signed := strings.CutSuffix(value, "%")
	n, err := strconv.Atoi(digits)
	switch {
	case err != nil:
		return 0, d.Errf("%s: %q is not a percentage from %d%% to %d%%", name, value, low, high)
	case n < low || n > high:
		return 0, d.Errf("%s: %q is out of range, %d%% to %d%%", name, value, low, high)
	case needsSign && !signed:
		return 0, d.Errf("%s: %q has no percent sign: write %d%%", name, value, n)
	}
	return n, nil
}

// Block reads what stands behind the name at which d stands, which takes a block of options and no argument.
func Block(d *caddyfile.Dispenser, option func(*caddyfile.Dispenser) error, repeatable ...string) error {
	name := d.Val()
	if d.NextArg() {
		return d.Errf("%s takes no argument, got %q", name, d.Val())
	}
	return Options(d, option, repeatable...)
}

// Options reads a block, if there is one, and calls option at each option in it. An option that is not repeatable may
// stand once.
func Options(d *caddyfile.Dispenser, option func(*caddyfile.Dispenser) error, repeatable ...string) error {
	var options once
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if !slices.Contains(repeatable, d.Val()) {
			if err := options.check(d); err != nil {
				return err
			}
		}
		if err := option(d); err != nil {
			return err
		}
	}
	return nil
}

// Extract calls option at each of the options with these names in the block behind the name at which d stands, and returns
// what is left of the name, its arguments and its block, for somebody else: options of ours can stand among those of a
// module. d stands at the end then, the other one before the name.
func Extract(d *caddyfile.Dispenser, option func(*caddyfile.Dispenser) error, names ...string) (*caddyfile.Dispenser, error) {
	segment := d.NextSegment()
	all := caddyfile.NewDispenser(segment)
	all.Next() // consume the name
	head := segment[:1+len(all.RemainingArgs())]
	var options once
	var rest caddyfile.Segment
	for nesting := all.Nesting(); all.NextBlock(nesting); {
		part := all.NextSegment()
		if !slices.Contains(names, part[0].Text) {
			rest = append(rest, part...)
			continue
		}
		own := caddyfile.NewDispenser(part)
		own.Next() // to the option
		if err := options.check(own); err != nil {
			return nil, err
		}
		if err := option(own); err != nil {
			return nil, err
		}
	}
	if len(rest) > 0 {
		opening, closing := segment[len(head)], segment[len(segment)-1]
		head = slices.Concat(head, caddyfile.Segment{opening}, rest, caddyfile.Segment{closing})
	}
	return caddyfile.NewDispenser(head), nil
}

// Module writes a module down that was read, with its name under key. One that can't be is an error: without its module,
// a setting may have a default.
func Module(d *caddyfile.Dispenser, module any, key, name string) (json.RawMessage, error) {
	var warnings []caddyconfig.Warning
	raw := caddyconfig.JSONModuleObject(module, key, name, &warnings)
	if len(warnings) > 0 {
		return nil, d.Errf("%s %q: %s", key, name, warnings[0].Message)
	}
	return raw, nil
}

// once refuses options that are given twice. The zero value is ready.
type once struct{ seen map[string]bool }

// check records the option at which d stands.
func (o *once) check(d *caddyfile.Dispenser) error {
	if o.seen[d.Val()] {
		return d.Errf("%s is given twice", d.Val())
	}
	if o.seen == nil {
		o.seen = make(map[string]bool)
	}
	o.seen[d.Val()] = true
	return nil
}
