package hostport

import "testing"

// FuzzParse checks that an address that is read has a host and a port or a path, and that its normal form stays what it is.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"10.0.0.1:80", "[::1]:80", "Web.Example.:80", "unix//run/x|0200", "unix/|0200", "tcp/a:1-2", "bücher.example:80", "[fe80::1%eth0]:80"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Parse(text)
		if err != nil {
			if a != (Address{}) {
				t.Errorf("got %+v with an error", a)
			}
			return
		}
		if (a.Path == "") != (a.Host != "" && a.Port != 0) {
			t.Fatalf("got %+v, want a host and a port, or a path", a)
		}
		normal := a.Normal()
		if normal.Normal() != normal {
			t.Errorf("got %+v as the normal form of %+v", normal.Normal(), normal)
		}
		if again, err := Parse(normal.String()); err != nil || again != normal {
			t.Errorf("got %+v, %v from %q, want %+v", again, err, normal, normal)
		}
	})
}
