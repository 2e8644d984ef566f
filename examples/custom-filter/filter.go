// Package wordlimit is an example of a filter that is not part of Sluice: `word_limit` counts the words in the bodies of
// requests while they stream by, and refuses what has too many. Copy it, and change what is in it.
package wordlimit

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-sluice/sluice/httpfilters/pipeline"
)

const (
	defaultMax = 1000
	highestMax = 1000000
	// wordsKey is the key of the result: the placeholder is {http.filters.word_limit.words}.
	wordsKey = "words"
	// wordsHeader tells the client how many words we have counted.
	wordsHeader = "X-Words"
)

func init() {
	caddy.RegisterModule(&Filter{})
}

// Filter is the filter `word_limit`. There is one for all requests, so it has settings in it, and nothing about a request.
type Filter struct {
	// The most words in a body. A body with more is refused with 422. Range: 1 to 1000000. Default: 1000. No placeholders.
	Max int `json:"max,omitempty"`

	logger *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (*Filter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.filters.word_limit",
		New: func() caddy.Module { return new(Filter) },
	}
}

// Provision checks the settings and sets the defaults.
func (f *Filter) Provision(ctx caddy.Context) error {
	f.logger = ctx.Logger()
	if f.Max == 0 {
		f.Max = defaultMax
	}
	if f.Max < 1 || f.Max > highestMax {
		return fmt.Errorf("max: %d is out of range, 1 to %d", f.Max, highestMax)
	}
	return nil
}

// UnmarshalCaddyfile reads the filter. Syntax, in the block of `filters`:
//
//	word_limit [<max>]
func (f *Filter) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the name
	if !d.NextArg() {
		return nil
	}
	n, err := strconv.Atoi(d.Val())
	if err != nil || n < 1 {
		return d.Errf("word_limit: %q is not a number from 1 to %d", d.Val(), highestMax)
	}
	f.Max = n
	if d.NextArg() || d.NextBlock(d.Nesting()) {
		return d.ArgErr()
	}
	return nil
}

// count is what the filter keeps for one request.
type count struct {
	words int
	// inside says that the last byte was one of a word, which may go on in the next piece.
	inside bool
	// complete says that the body has ended.
	complete bool
}

// add counts the words in the next piece.
func (n *count) add(piece []byte) {
	for _, b := range piece {
		letter := b > ' '
		if letter && !n.inside {
			n.words++
		}
		n.inside = letter
	}
}

// RequestBodyWish implements pipeline.RequestBodyFilter: the filter looks, changes nothing, and holds nothing back.
func (f *Filter) RequestBodyWish() pipeline.Wish {
	return pipeline.Wish{Access: pipeline.ReadOnly, Mode: pipeline.Stream}
}

// RequestBody implements pipeline.RequestBodyFilter. The piece belongs to the pipeline: what is to be kept of it must be
// copied.
func (f *Filter) RequestBody(x *pipeline.Exchange, c *pipeline.Chunk) (pipeline.Action, error) {
	n, ok := x.State().(*count)
	if !ok {
		n = new(count)
		x.SetState(n)
	}
	n.add(c.Bytes())
	if n.words > f.Max {
		return pipeline.Continue, pipeline.Reject(http.StatusUnprocessableEntity, fmt.Errorf("more than %d words", f.Max))
	}
	if !c.End() {
		return pipeline.Continue, nil
	}
	n.complete = true
	return pipeline.Done, x.Set(wordsKey, strconv.Itoa(n.words))
}

// DeclaredResults implements pipeline.ResultDeclarer: there is one key, and its values can't be listed.
func (*Filter) DeclaredResults() map[string][]string { return map[string][]string{wordsKey: nil} }

// Response implements pipeline.ResponseFilter. A handler may answer before it has read the body, or without reading it.
func (f *Filter) Response(x *pipeline.Exchange) error {
	if n, ok := x.State().(*count); ok && n.complete {
		x.Response().Header.Set(wordsHeader, strconv.Itoa(n.words))
	}
	return nil
}

// Log implements pipeline.LogFilter. The response is nil if there was none.
func (f *Filter) Log(x *pipeline.Exchange) {
	n, ok := x.State().(*count)
	if !ok {
		return
	}
	if entry := f.logger.Check(zapcore.DebugLevel, "words counted"); entry != nil {
		entry.Write(zap.Int("words", n.words), zap.Bool("complete", n.complete), zap.Error(x.Err()))
	}
}

// Interface guards
var (
	_ caddy.Provisioner          = (*Filter)(nil)
	_ caddyfile.Unmarshaler      = (*Filter)(nil)
	_ pipeline.RequestBodyFilter = (*Filter)(nil)
	_ pipeline.ResponseFilter    = (*Filter)(nil)
	_ pipeline.ResultDeclarer    = (*Filter)(nil)
	_ pipeline.LogFilter         = (*Filter)(nil)
)
