// Package explain is the command `caddy sluice explain`. It says what an sni_router of a config does with a ClientHello,
// and why, without a server: nothing is provisioned, opened or sent. The hello is read and routed by the code that the
// server runs.
package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// exitFailed is the exit code when there is no answer: the config, the flags or the hello can't be used. Exit code 1
// is an answer: the connection would be closed.
const exitFailed = 2

// errClosed makes the exit code 1.
var errClosed = errors.New("the connection would be closed")

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "sluice",
		Usage: "<command>",
		Short: "Tools for layer-4 routing by server name",
		Long:  "Tools for layer-4 routing by server name.",
		CobraFunc: func(cmd *cobra.Command) {
			cmd.AddCommand(newCommand())
		},
	})
}

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [--config <path> [--adapter <name>]] [--listen <address>] (--name <name> | --hello <file>)",
		Short: "Says which route a TLS connection takes, and why",
		Long: `
Says what each sni_router of a config does with a TLS connection, and why: the
route or the fallback that takes it, or the reason for which it is closed. The
config is read as 'caddy validate' reads it, but not provisioned; nothing is
opened or sent. Handlers and matchers around an sni_router are not run.

Ask about a server name and the protocols that a client offers (--name, --alpn,
--ech), or about the first bytes of a connection as they were captured
(--hello), raw or in hex.

The exit code is 0 if the connection has a place to go at every sni_router that
it comes to, 1 if it would be closed at one, and 2 if there is no answer.`,
		Example: `  $ caddy sluice explain --config Caddyfile --name kube.example.com --alpn h2,http/1.1
  $ caddy sluice explain --listen :443 --hello first-flight.bin`,
		RunE: runCommand,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return fail(cmd, fmt.Errorf("unexpected argument %q", args[0]))
		},
	}
	cmd.SetFlagErrorFunc(fail)
	flags := cmd.Flags()
	flags.StringP("config", "c", "", "Configuration file")
	flags.StringP("adapter", "a", "", "Name of config adapter")
	flags.StringP("listen", "l", "", "Only what listens on this address")
	flags.StringP("name", "n", "", "The server name to ask about; empty: a client that sends none")
	flags.StringSlice("alpn", nil, "The protocols that the client offers, in its order (with --name)")
	flags.Bool("ech", false, "The client sends an encrypted hello (with --name)")
	flags.String("hello", "", "File with the first bytes of a connection, raw or in hex; - for stdin")
	flags.String("peer", "", "IP address of the peer, to which proxy_protocol applies or not (with --hello)")
	flags.Bool("json", false, "Print the answer as JSON")
	return cmd
}

// fail ends the command without an answer.
func fail(cmd *cobra.Command, err error) error {
	return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return exitFailed, err })(cmd, nil)
}

func runCommand(cmd *cobra.Command, _ []string) error {
	fl := caddycmd.Flags{FlagSet: cmd.Flags()}
	answers, err := ask(fl, cmd.InOrStdin())
	if err != nil {
		return fail(cmd, err)
	}
	if err := write(cmd.OutOrStdout(), answers, fl.Bool("json")); err != nil {
		return fail(cmd, err)
	}
	for _, a := range answers {
		if a.Action == actionClosed {
			cmd.SilenceErrors = true
			return errClosed
		}
	}
	return nil
}

// ask answers the question in the flags.
func ask(fl caddycmd.Flags, stdin io.Reader) ([]answer, error) {
	if fl.String("config") == "-" && fl.String("hello") == "-" {
		return nil, errors.New("--config and --hello can't both be read from stdin")
	}
	f, err := readFlight(fl, stdin)
	if err != nil {
		return nil, err
	}
	config, file, _, err := caddycmd.LoadConfig(fl.String("config"), fl.String("adapter"))
	if err != nil {
		return nil, err
	}
	if len(config) == 0 {
		return nil, errors.New("there is no Caddyfile in the current directory: name a config with --config")
	}
	answers, err := explain(caddy.RemoveMetaFields(config), f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(answers) == 0 {
		return nil, fmt.Errorf("%s: there is no sni_router", file)
	}
	return onlyListening(answers, fl.String("listen"))
}

// onlyListening returns the answers for routers that listen on an address. Empty: all.
func onlyListening(answers []answer, want string) ([]answer, error) {
	if want == "" {
		return answers, nil
	}
	address, err := parseAddress(want)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if address.StartPort == 0 && !address.IsUnixNetwork() {
		return nil, fmt.Errorf("--listen: %q has no port", want)
	}
	var left []answer
	var all []string
	for _, a := range answers {
		ok, err := listensOn(a.Listen, address)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Path, err)
		}
		if ok {
			left = append(left, a)
		}
		all = append(all, a.Listen...)
	}
	if len(left) == 0 {
		return nil, fmt.Errorf("--listen: no sni_router listens on %q, but on %s", want, strings.Join(unique(all), ", "))
	}
	return left, nil
}

// write writes the answers, for people or as JSON.
func write(w io.Writer, answers []answer, asJSON bool) error {
	text := []byte(formatText(answers))
	if asJSON {
		encoded, err := json.MarshalIndent(map[string][]answer{"routers": answers}, "", "  ")
		if err != nil {
			return err
		}
		text = append(escapeJSON(encoded), '\n')
	}
	_, err := w.Write(text)
	return err
}
