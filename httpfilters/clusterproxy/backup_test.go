package clusterproxy

import (
	"net/http"
	"testing"
)

// TestBackup checks that a backup answers what the endpoints before it don't, whatever is known about their health, and
// nothing else.
func TestBackup(t *testing.T) {
	for name, set := range map[string]object{
		"nothing known": {}, "passive": {"passive": object{"fall": 3}}, "outlier": {"outlier": object{"consecutive_failures": 3}},
	} {
		t.Run(name, func(t *testing.T) {
			first, backup := newBackend(t, echo), newBackend(t, echo)
			set["endpoints"] = []object{{"address": first.address}, {"address": dead(t)}, {"address": backup.address, "backup": true}}
			s := newSite(t, set, nil)
			for range 8 {
				s.get(t).want(t, http.StatusOK)
			}
			if n := backup.requests.Load(); n > 0 {
				t.Errorf("the backup got %d requests while another endpoint was there", n)
			}
		})
		t.Run(name+", nothing else", func(t *testing.T) {
			backup := newBackend(t, echo)
			set["endpoints"] = []object{{"address": dead(t)}, {"address": dead(t)}, {"address": backup.address, "backup": true}}
			s := newSite(t, set, nil)
			for range 8 {
				s.get(t).want(t, http.StatusOK)
			}
		})
	}
}
