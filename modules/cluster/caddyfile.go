package cluster

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-sluice/sluice/caddyfile/args"
	"github.com/caddy-sluice/sluice/internal/balance"
	"github.com/caddy-sluice/sluice/internal/netguard"
	"github.com/caddy-sluice/sluice/modules/balancers"
	"github.com/caddy-sluice/sluice/modules/discovery"
	"github.com/caddy-sluice/sluice/modules/hostport"
	"github.com/caddy-sluice/sluice/modules/upstreamtls"
)

// UnmarshalBlock reads the block of a cluster, behind the name at which d stands. Syntax:
//
//	cluster <name> {
//		endpoints <addresses...>
//		endpoint  <address> {
//			weight <number>
//			backup
//			limits {
//				...
//			}
//		}
//		discover           <source> ...
//		balance            <policy> ...
//		on_no_endpoint     fail_open|refuse
//		panic_threshold    <percent>%
//		slow_start         <duration> {
//			...
//		}
//		health             <check> ...
//		passive {
//			...
//		}
//		outlier {
//			...
//		}
//		limits {
//			...
//		}
//		retry {
//			...
//		}
//		per_try_timeout    <duration>
//		request_timeout    <duration>
//		tls {
//			...
//		}
//		proxy_protocol     v1|v2
//		guard              dns|strict|off
//		allow_private
//		close_on_unhealthy [<grace>]
//	}
func (c *Config) UnmarshalBlock(d *caddyfile.Dispenser) error {
	name := d.Val()
	if err := args.Options(d, c.unmarshalOption, "endpoint", "endpoints", "discover"); err != nil {
		return err
	}
	if len(c.Endpoints) == 0 && len(c.Discover) == 0 {
		return d.Errf("cluster %s needs an endpoint, or a discover", name)
	}
	return nil
}

// CheckName says what is wrong with the name of a cluster. Names stand in placeholders, metrics and paths.
func CheckName(name string) error {
	ok := name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r|0x20 >= 'a' && r|0x20 <= 'z'
		return !letter && (r < '0' || r > '9') && r != '_' && r != '-'
	})
	if !ok {
		return fmt.Errorf("name %q: must consist of letters, digits, _ and -", name)
	}
	return nil
}

// unmarshalOption reads the option at which d stands.
func (c *Config) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	switch d.Val() {
	case "endpoint":
		err = c.unmarshalEndpoint(d)
	case "endpoints":
		err = c.unmarshalEndpoints(d)
	case "discover":
		err = c.unmarshalDiscover(d)
	case "balance":
		c.BalanceRaw, err = unmarshalBalance(d)
	case "on_no_endpoint":
		c.OnNoEndpoint, err = args.Word(d, failOpen, refuse)
	case "panic_threshold":
		c.PanicThreshold, err = args.Percent(d, 0, 100)
	case "slow_start":
		c.SlowStart = new(SlowStart)
		err = c.SlowStart.unmarshal(d)
	case "health":
		c.Health = new(Health)
		err = c.Health.unmarshal(d)
	case "passive":
		c.Passive = new(Passive)
		err = args.Block(d, c.Passive.unmarshalOption)
	case "outlier":
		c.Outlier = new(Outlier)
		err = args.Block(d, c.Outlier.unmarshalOption)
	case "limits":
		c.Limits = new(Limits)
		err = args.Block(d, c.Limits.unmarshalOption)
	case "retry":
		c.Retry = new(Retry)
		err = c.Retry.unmarshal(d)
	default:
		err = c.unmarshalTransport(d)
	}
	return err
}

// unmarshalTransport reads the option at which d stands, if it is about connections to endpoints and their times.
func (c *Config) unmarshalTransport(d *caddyfile.Dispenser) (err error) {
	switch d.Val() {
	case "per_try_timeout":
		c.PerTryTimeout, err = args.Duration(d)
	case "request_timeout":
		c.RequestTimeout, err = args.Duration(d)
	case "tls":
		c.TLS = new(upstreamtls.TLS)
		err = c.TLS.UnmarshalBlock(d)
	case "proxy_protocol":
		c.ProxyProtocol, err = args.Word(d, "v1", "v2")
	case "guard":
		c.Guard = new(netguard.Mode)
		*c.Guard, err = UnmarshalGuard(d)
	case "allow_private":
		c.AllowPrivate, err = true, args.None(d)
	case "close_on_unhealthy":
		c.CloseOnUnhealthy, err = unmarshalGrace(d)
	default:
		err = d.Errf("unrecognized option %q: expected one of %s", d.Val(), options)
	}
	return err
}

// options are the names of all options, for errors.
const options = "endpoint, endpoints, discover, balance, on_no_endpoint, panic_threshold, slow_start, health, passive, outlier, " +
	"limits, retry, per_try_timeout, request_timeout, tls, proxy_protocol, guard, allow_private, close_on_unhealthy"

// unmarshalEndpoint reads one endpoint, which may have a block.
func (c *Config) unmarshalEndpoint(d *caddyfile.Dispenser) error {
	var e EndpointConfig
	address, err := args.One(d)
	if err != nil {
		return err
	}
	if e.Address, err = checkAddress(d, address); err != nil {
		return err
	}
	if err := args.Options(d, e.unmarshalOption); err != nil {
		return err
	}
	c.Endpoints = append(c.Endpoints, e)
	return nil
}

// unmarshalEndpoints reads addresses.
func (c *Config) unmarshalEndpoints(d *caddyfile.Dispenser) error {
	addresses, err := args.Many(d)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		if address, err = checkAddress(d, address); err != nil {
			return err
		}
		c.Endpoints = append(c.Endpoints, EndpointConfig{Address: address})
	}
	return args.NoBlock(d, "endpoints")
}

// checkAddress refuses what is no address. A placeholder is replaced where the config is loaded, not where it is adapted.
func checkAddress(d *caddyfile.Dispenser, address string) (string, error) {
	if _, err := hostport.Parse(address); err != nil && !strings.Contains(address, "{") {
		return "", d.WrapErr(err)
	}
	return address, nil
}

// unmarshalOption reads the option at which d stands.
func (e *EndpointConfig) unmarshalOption(d *caddyfile.Dispenser) (err error) {
	switch d.Val() {
	case "weight":
		e.Weight, err = within(d, 1, balance.MaxWeight)
	case "backup":
		e.Backup, err = true, args.None(d)
	case "limits":
		e.Limits = new(EndpointLimits)
		err = args.Block(d, e.Limits.unmarshalOption)
	default:
		err = d.Errf("unrecognized option %q: expected weight, backup or limits", d.Val())
	}
	return err
}

// unmarshalDiscover reads a source of endpoints.
func (c *Config) unmarshalDiscover(d *caddyfile.Dispenser) error {
	var source discovery.Discover
	if err := source.UnmarshalCaddyfile(d); err != nil {
		return err
	}
	c.Discover = append(c.Discover, source)
	return nil
}

// unmarshalBalance reads the module that chooses.
func unmarshalBalance(d *caddyfile.Dispenser) ([]byte, error) {
	policy, err := guest(d, balancers.Namespace, "a policy")
	if err != nil {
		return nil, err
	}
	module, err := caddyfile.UnmarshalModule(d, balancers.Namespace+"."+policy)
	if err != nil {
		return nil, err
	}
	return args.Module(d, module, "policy", policy)
}

// guest returns the name of a module behind an option, and goes there. It has to be one of those that there are.
func guest(d *caddyfile.Dispenser, namespace, kind string) (string, error) {
	option := d.Val()
	var names []string
	for _, info := range caddy.GetModules(namespace) {
		names = append(names, info.ID.Name())
	}
	if !d.NextArg() {
		return "", d.Errf("%s needs the name of %s: one of %s", option, kind, strings.Join(names, ", "))
	}
	name := d.Val()
	if _, err := caddy.GetModule(namespace + "." + name); err != nil {
		return "", d.Errf("%s: %q is not the name of %s; must be one of %s", option, name, kind, strings.Join(names, ", "))
	}
	return name, nil
}

// UnmarshalGuard reads the mode of a guard, at whose option d stands.
func UnmarshalGuard(d *caddyfile.Dispenser) (netguard.Mode, error) {
	word, err := args.Word(d, netguard.DNS.String(), netguard.Strict.String(), netguard.Off.String())
	mode, _ := netguard.ParseMode(word)
	return mode, err
}

// unmarshalGrace reads how long connections may go on. Without an argument they end at once.
func unmarshalGrace(d *caddyfile.Dispenser) (caddy.Duration, error) {
	if d.CountRemainingArgs() > 0 {
		return args.Duration(d)
	}
	return atOnce, args.None(d)
}

// atOnce is the shortest time: 0 is no limit.
const atOnce = caddy.Duration(1)

// within reads a number from low to high.
func within(d *caddyfile.Dispenser, low, high int) (*int, error) {
	n, err := args.Number(d, low, high)
	return &n, err
}
