package jsonfield

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-sluice/sluice/internal/jsonscan"
	"github.com/caddy-sluice/sluice/modules/reserved"
)

// provisionFields checks the fields.
func (f *Filter) provisionFields() error {
	if err := f.countFits(); err != nil {
		return err
	}
	for i := range f.Fields {
		field := &f.Fields[i]
		if field.Field == "" {
			return fmt.Errorf("fields[%d].field: missing", i)
		}
		if err := headerFits(field.Header, f.Fields[:i]); err != nil {
			return fmt.Errorf("fields[%d].header: %q %w", i, field.Header, err)
		}
		field.Header = http.CanonicalHeaderKey(field.Header)
	}
	var err error
	f.query, err = f.compile()
	return err
}

// countFits says whether there are too many fields, or none.
func (f *Filter) countFits() error {
	if n := len(f.Fields); n == 0 || n > jsonscan.MaxNames {
		return fmt.Errorf("fields: %d fields, 1 to %d are needed", n, jsonscan.MaxNames)
	}
	return nil
}

// compile makes of the fields what bodies are scanned for.
func (f *Filter) compile() (*jsonscan.Query, error) {
	options := jsonscan.Options{Strict: f.Strict != off, MaxValue: f.MaxValue}
	for i := range f.Fields {
		options.Names = append(options.Names, f.Fields[i].Field)
	}
	query, err := jsonscan.NewQuery(options)
	if err != nil {
		return nil, fmt.Errorf("fields: %w", err)
	}
	return query, nil
}

// headerFits says why a header can't be set beside those of the fields before.
func headerFits(name string, before []Field) error {
	if !httpguts.ValidHeaderFieldName(name) {
		return errors.New("is not the name of a header")
	}
	if forbidden(name) {
		return errors.New("is the protocol's own")
	}
	for i := range before {
		switch other := before[i].Header; {
		case http.CanonicalHeaderKey(name) == http.CanonicalHeaderKey(other):
			return errors.New("is given twice")
		case reserved.Same(name, other):
			return fmt.Errorf("is %q to some backends, which is given too", other)
		}
	}
	return nil
}

// protocolHeaders are the protocol's own: what a body says must not change how it is read. Those that begin with Proxy-
// are too.
var protocolHeaders = []string{
	"Host", "Connection", "Content-Length", "Transfer-Encoding", "Trailer", "Te", "Upgrade", "Keep-Alive", "Expect",
	"Content-Encoding", "Http2-Settings",
}

// forbidden reports whether a header is the protocol's own, also for backends that take other spellings for it.
func forbidden(name string) bool {
	const proxy = "Proxy-"
	return len(name) > len(proxy) && reserved.Same(name[:len(proxy)], proxy) ||
		slices.ContainsFunc(protocolHeaders, func(own string) bool { return reserved.Same(name, own) })
}
