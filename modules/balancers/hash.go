package balancers

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-sluice/sluice/caddyfile/args"
	"github.com/caddy-sluice/sluice/internal/balance"
)

func init() {
	caddy.RegisterModule(new(Maglev))
	caddy.RegisterModule(new(RingHash))
}

// Maglev looks the key up in a table that is filled by weight: the same key gets the same endpoint, on every machine
// with the same endpoints and weights. Shares are even, and few keys move when an endpoint comes or goes.
type Maglev struct {
	// What an endpoint is chosen by: `client_ip`, `sni`, `header <name>`, `cookie <name>`, `uri`, `query <name>`, or a
	// text with placeholders, which are replaced for each connection or request. Required.
	Key string `json:"key,omitempty"`

	// How many slots the table has. Range: a prime from 2 to 5000011, no less than there are endpoints. Default: 65537.
	// No placeholders.
	TableSize int `json:"table_size,omitempty"`

	// The percentage of the mean load for its weight that an endpoint may have before another one takes its place. Range:
	// 100 to 10000. Default: no bound. No placeholders.
	BalanceFactor int `json:"balance_factor,omitempty"`

	hash
}

// RingHash looks the key up on a ring of points: the same key gets the same endpoint, on every machine with the same
// endpoints and weights. Only those keys move that have to when an endpoint comes or goes.
type RingHash struct {
	// What an endpoint is chosen by: `client_ip`, `sni`, `header <name>`, `cookie <name>`, `uri`, `query <name>`, or a
	// text with placeholders, which are replaced for each connection or request. Required.
	Key string `json:"key,omitempty"`

	// How many points an endpoint has for each unit of its weight. Range: 1 to 16384. Default: 160. No placeholders.
	RingPoints int `json:"ring_points,omitempty"`

	// The percentage of the mean load for its weight that an endpoint may have before another one takes its place. Range:
	// 100 to 10000. Default: no bound. No placeholders.
	BalanceFactor int `json:"balance_factor,omitempty"`

	hash
}

// CaddyModule returns the Caddy module information.
func (*Maglev) CaddyModule() caddy.ModuleInfo {
	return info(balance.Maglev, func() caddy.Module { return new(Maglev) })
}

// CaddyModule returns the Caddy module information.
func (*RingHash) CaddyModule() caddy.ModuleInfo {
	return info(balance.RingHash, func() caddy.Module { return new(RingHash) })
}

// Provision checks the options.
func (m *Maglev) Provision(caddy.Context) error { return m.set(m.Key, m.config()) }

// Provision checks the options.
func (r *RingHash) Provision(caddy.Context) error { return r.set(r.Key, r.config()) }

func (m *Maglev) config() balance.Config {
	return balance.Config{Policy: balance.Maglev, TableSize: m.TableSize, BalanceFactor: m.BalanceFactor}
}

func (r *RingHash) config() balance.Config {
	return balance.Config{Policy: balance.RingHash, RingPoints: r.RingPoints, BalanceFactor: r.BalanceFactor}
}

// UnmarshalCaddyfile reads the policy. Syntax:
//
//	maglev <key...> {
//		table_size     <prime>
//		balance_factor <percent>%
//	}
func (m *Maglev) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return unmarshalHash(d, &m.Key, func(d *caddyfile.Dispenser) (err error) {
		switch d.Val() {
		case "table_size":
			m.TableSize, err = args.Number(d, 2, balance.MaxTableSize)
		case "balance_factor":
			m.BalanceFactor, err = args.Percent(d, balance.MinBalanceFactor, balance.MaxBalanceFactor)
		default:
			err = d.Errf("unrecognized option %q: expected table_size or balance_factor", d.Val())
		}
		return checked(d, m.config(), err)
	})
}

// UnmarshalCaddyfile reads the policy. Syntax:
//
//	ring_hash <key...> {
//		ring_points    <number>
//		balance_factor <percent>%
//	}
func (r *RingHash) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return unmarshalHash(d, &r.Key, func(d *caddyfile.Dispenser) (err error) {
		switch d.Val() {
		case "ring_points":
			r.RingPoints, err = args.Number(d, 1, balance.MaxRingPoints)
		case "balance_factor":
			r.BalanceFactor, err = args.Percent(d, balance.MinBalanceFactor, balance.MaxBalanceFactor)
		default:
			err = d.Errf("unrecognized option %q: expected ring_points or balance_factor", d.Val())
		}
		return checked(d, r.config(), err)
	})
}

// unmarshalHash reads the key of a policy, and a block of its options.
func unmarshalHash(d *caddyfile.Dispenser, key *string, option func(*caddyfile.Dispenser) error) error {
	d.Next() // consume policy name
	policy := d.Val()
	words := d.RemainingArgs()
	if len(words) == 0 {
		return d.Errf("%s needs a key, such as client_ip", policy)
	}
	*key = strings.Join(words, " ")
	if _, err := ParseKey(*key); err != nil {
		return d.Errf("%s: key: %w", policy, err)
	}
	return args.Options(d, option)
}

// checked returns the error of an option: err, or what is out of range.
func checked(d *caddyfile.Dispenser, config balance.Config, err error) error {
	if err == nil {
		err = config.Validate()
		if err != nil {
			err = d.WrapErr(err)
		}
	}
	return err
}

// hash is a policy that chooses by a key.
type hash struct {
	key      Key
	settings balance.Config
}

// set checks a key and options, and keeps them.
func (h *hash) set(key string, settings balance.Config) (err error) {
	if h.key, err = ParseKey(key); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	h.settings = settings
	return settings.Validate()
}

// Prepare returns a picker.
func (h *hash) Prepare(endpoints []Endpoint, before Picker) (Picker, error) {
	return prepare(h.settings, endpoints, before)
}

// Traits says what the cluster has to know.
func (h *hash) Traits() Traits { return Traits{Key: h.key, Ramps: h.settings.Policy.Ramps()} }

// Interface guards
var (
	_ Balancer              = (*Maglev)(nil)
	_ Balancer              = (*RingHash)(nil)
	_ caddy.Provisioner     = (*Maglev)(nil)
	_ caddy.Provisioner     = (*RingHash)(nil)
	_ caddyfile.Unmarshaler = (*Maglev)(nil)
	_ caddyfile.Unmarshaler = (*RingHash)(nil)
)
