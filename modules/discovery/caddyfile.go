package discovery

import (
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-sluice/sluice/caddyfile/args"
)

// UnmarshalCaddyfile reads the option of a cluster at whose name d stands. Syntax:
//
//	discover srv <name> {
//		refresh   <duration>
//		resolvers <address...>
//	}
//	discover a <name> <port> {
//		refresh   <duration>
//		resolvers <address...>
//	}
//	discover <module> <arguments of the module...> {
//		refresh <duration>
//		<options of the module>
//	}
func (d *Discover) UnmarshalCaddyfile(disp *caddyfile.Dispenser) error {
	block := disp.NewFromNextSegment()
	block.Next() // discover
	if !block.NextArg() {
		return block.Err("discover needs a kind: srv, a, or a module")
	}
	switch kind := block.Val(); kind {
	case "srv":
		return d.unmarshalSRV(block)
	case "a":
		return d.unmarshalA(block)
	case "cluster":
		return block.Err("discover cluster: a cluster can't be found by a cluster")
	default:
		return d.unmarshalUpstreams(block, kind)
	}
}

// unmarshalSRV reads what follows the word srv, at which block stands.
func (d *Discover) unmarshalSRV(block *caddyfile.Dispenser) (err error) {
	d.SRV = new(SRV)
	if d.SRV.Name, err = args.One(block); err != nil {
		return err
	}
	return args.Options(block, d.option(&d.SRV.Resolvers), "resolvers")
}

// unmarshalA reads what follows the word a, at which block stands.
func (d *Discover) unmarshalA(block *caddyfile.Dispenser) (err error) {
	values := block.RemainingArgs()
	if len(values) != 2 {
		return block.Errf("discover a needs a name and a port, got %d arguments", len(values))
	}
	d.A = &A{Name: values[0]}
	if d.A.Port, err = strconv.Atoi(values[1]); err != nil || d.A.Port < 1 || d.A.Port > 65535 {
		return block.Errf("discover a: %q is not a port", values[1])
	}
	return args.Options(block, d.option(&d.A.Resolvers), "resolvers")
}

// option returns the reader of the options that srv and a have.
func (d *Discover) option(resolvers *[]string) func(*caddyfile.Dispenser) error {
	return func(block *caddyfile.Dispenser) (err error) {
		switch name := block.Val(); name {
		case "refresh":
			d.Refresh, err = args.Duration(block)
		case "resolvers":
			var servers []string
			servers, err = args.Many(block)
			*resolvers = append(*resolvers, servers...)
		default:
			err = block.Errf("unrecognized option %q: expected refresh or resolvers", name)
		}
		return err
	}
}

// unmarshalUpstreams has a module read what follows its name, at which block stands, but for the option refresh.
func (d *Discover) unmarshalUpstreams(block *caddyfile.Dispenser, name string) error {
	if _, err := caddy.GetModule(upstreamsNamespace + name); err != nil {
		return block.Errf("discover: there is no kind %q, and no module %s%s", name, upstreamsNamespace, name)
	}
	rest, err := args.Extract(block, d.takeRefresh, "refresh")
	if err != nil {
		return err
	}
	rest.Next() // to the name, for which UnmarshalModule looks
	module, err := caddyfile.UnmarshalModule(rest, upstreamsNamespace+name)
	if err != nil {
		return err
	}
	if _, ok := module.(reverseproxy.UpstreamSource); !ok {
		return block.Errf("discover: the module %s%s does not find upstreams", upstreamsNamespace, name)
	}
	d.UpstreamsRaw, err = args.Module(block, module, "source", name)
	return err
}

// takeRefresh reads the option refresh, at which block stands.
func (d *Discover) takeRefresh(block *caddyfile.Dispenser) (err error) {
	d.Refresh, err = args.Duration(block)
	return err
}

// Interface guards
var _ caddyfile.Unmarshaler = (*Discover)(nil)
