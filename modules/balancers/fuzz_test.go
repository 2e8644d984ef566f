package balancers

import (
	"strings"
	"testing"
)

// FuzzParseKey checks that a key that is read can be written and read again, has at least one layer, and that named ones
// have a name.
func FuzzParseKey(f *testing.F) {
	for _, text := range []string{"client_ip", "sni", "header X-User", "cookie a", "uri", "query a b", "{http.request.host}-{l4.sluice.sni}", "{tenant}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ParseKey(text)
		if err != nil {
			if k != (Key{}) {
				t.Errorf("got %+v with an error", k)
			}
			return
		}
		if !k.Layer4() && !k.HTTP() {
			t.Errorf("got %+v, which no layer has", k)
		}
		if k.Source.named() != (k.Name != "" && k.Source != Placeholder) {
			t.Errorf("got %+v", k)
		}
		written := k.Name
		if k.Source != Placeholder {
			word, _, _ := strings.Cut(text, " ")
			written = strings.TrimSuffix(word+" "+k.Name, " ")
		}
		if k.Source == QueryParameter {
			written = "query " + k.Name
		}
		if again, err := ParseKey(written); err != nil || again != k {
			t.Errorf("got %+v, %v from %q, want %+v", again, err, written, k)
		}
	})
}
