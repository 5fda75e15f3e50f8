// Package iptables stands in for sigs.k8s.io/iptables-wrappers, which kube-proxy 1.38 runs the tools of iptables with, where the module
// proxy does not have it. It has what kube-proxy calls, and nothing else. What is in rules is up to kube-proxy, and not in here.
package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/set"
)

type (
	Protocol     string
	Table        string
	Chain        string
	RulePosition string
	// HostMode says which of the host's tools are meant. Those of the path, here.
	HostMode string
)

const (
	ProtocolIPv4 Protocol = "IPv4"
	ProtocolIPv6 Protocol = "IPv6"

	TableNAT    Table = "nat"
	TableFilter Table = "filter"
	TableMangle Table = "mangle"

	ChainPrerouting  Chain = "PREROUTING"
	ChainInput       Chain = "INPUT"
	ChainForward     Chain = "FORWARD"
	ChainOutput      Chain = "OUTPUT"
	ChainPostrouting Chain = "POSTROUTING"

	Prepend RulePosition = "-I"
	Append  RulePosition = "-A"

	DetectHostMode HostMode = "detect"
)

// Interface runs the tools of one family.
type Interface interface {
	// EnsureChain and EnsureRule say whether it was there before.
	EnsureChain(ctx context.Context, table Table, chain Chain) (bool, error)
	EnsureRule(ctx context.Context, position RulePosition, table Table, chain Chain, args ...string) (bool, error)
	FlushChain(ctx context.Context, table Table, chain Chain) error
	DeleteChain(ctx context.Context, table Table, chain Chain) error
	// DeleteRule succeeds without the rule.
	DeleteRule(ctx context.Context, table Table, chain Chain, args ...string) error
	IsIPv6() bool
	Protocol() Protocol
	SaveInto(ctx context.Context, table Table, buffer *bytes.Buffer) error
	// Restore leaves chains alone that are not in the data.
	Restore(ctx context.Context, data []byte) error
	// Monitor calls reload each time that the canary is gone from the first table, until the context ends.
	Monitor(ctx context.Context, canary Chain, tables []Table, reload func(), interval time.Duration)
}

type runner struct {
	protocol Protocol
	tool     string
}

// New fails where the tool or the kernel lacks the family.
func New(ctx context.Context, protocol Protocol, _ HostMode) (Interface, error) {
	tools := map[Protocol]string{ProtocolIPv4: "iptables", ProtocolIPv6: "ip6tables"}
	r := &runner{protocol, tools[protocol]}
	if err := r.run(ctx, TableNAT, "-S", ChainPostrouting); err != nil {
		return nil, err
	}
	return r, nil
}

// NewBestEffort has the families that work.
func NewBestEffort(ctx context.Context, mode HostMode) map[Protocol]Interface {
	found := map[Protocol]Interface{}
	for _, protocol := range []Protocol{ProtocolIPv4, ProtocolIPv6} {
		if r, err := New(ctx, protocol, mode); err == nil {
			found[protocol] = r
		}
	}
	return found
}

// In seconds: the lock of the legacy store.
var wait = []string{"-w", "5"}

func (r *runner) run(ctx context.Context, table Table, verb string, chain Chain, args ...string) error {
	argv := append(append([]string{}, wait...), verb, string(chain), "-t", string(table))
	out, err := exec.CommandContext(ctx, r.tool, append(argv, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s %s in table %s: %w: %s", r.tool, verb, chain, table, err, out)
	}
	return nil
}

// Exit code 1 of the tools: it is there already (-N), or it is not there (-C).
func isAnswer(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == 1
}

func (r *runner) EnsureChain(ctx context.Context, table Table, chain Chain) (bool, error) {
	err := r.run(ctx, table, "-N", chain)
	if isAnswer(err) {
		return true, nil
	}
	return false, err
}

func (r *runner) hasRule(ctx context.Context, table Table, chain Chain, args []string) (bool, error) {
	err := r.run(ctx, table, "-C", chain, args...)
	if isAnswer(err) {
		return false, nil
	}
	return err == nil, err
}

func (r *runner) EnsureRule(ctx context.Context, position RulePosition, table Table, chain Chain, args ...string) (bool, error) {
	if has, err := r.hasRule(ctx, table, chain, args); has || err != nil {
		return has, err
	}
	return false, r.run(ctx, table, string(position), chain, args...)
}

func (r *runner) DeleteRule(ctx context.Context, table Table, chain Chain, args ...string) error {
	if has, err := r.hasRule(ctx, table, chain, args); !has {
		return err
	}
	return r.run(ctx, table, "-D", chain, args...)
}

func (r *runner) FlushChain(ctx context.Context, table Table, chain Chain) error {
	return r.run(ctx, table, "-F", chain)
}

func (r *runner) DeleteChain(ctx context.Context, table Table, chain Chain) error {
	return r.run(ctx, table, "-X", chain)
}

func (r *runner) IsIPv6() bool       { return r.protocol == ProtocolIPv6 }
func (r *runner) Protocol() Protocol { return r.protocol }

func (r *runner) SaveInto(ctx context.Context, table Table, buffer *bytes.Buffer) error {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, r.tool+"-save", "-t", string(table))
	cmd.Stdout, cmd.Stderr = buffer, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s-save: %w: %s", r.tool, err, &stderr)
	}
	return nil
}

func (r *runner) Restore(ctx context.Context, data []byte) error {
	cmd := exec.CommandContext(ctx, r.tool+"-restore", append(append([]string{}, wait...), "--noflush", "--counters")...)
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if match := failedLine.FindSubmatch(out); match != nil {
		line, _ := strconv.Atoi(string(match[1]))
		return parseError{line, fmt.Errorf("%w: %s", err, out)}
	}
	return fmt.Errorf("%s-restore: %w: %s", r.tool, err, out)
}

func (r *runner) Monitor(ctx context.Context, canary Chain, tables []Table, reload func(), interval time.Duration) {
	ensure := func() {
		for _, table := range tables {
			_, _ = r.EnsureChain(ctx, table, canary)
		}
	}
	ensure()
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			if isAnswer(r.run(ctx, tables[0], "-S", canary)) {
				ensure()
				reload()
			}
		}
	}
}

// ParseError names the line of the data that the tool refused.
type ParseError interface {
	error
	Line() int
}

type parseError struct {
	line int
	error
}

func (e parseError) Line() int { return e.line }

var failedLine = regexp.MustCompile(`line:? (\d+)`)

// ExtractLines returns the given number of lines on either side of a line, counted from one.
func ExtractLines(data []byte, line, count int) []string {
	lines := strings.Split(string(data), "\n")
	start, end := max(line-1-count, 0), min(line+count, len(lines))
	if start >= end {
		return nil
	}
	return lines[start:end]
}

// MakeChainLine makes a chain, or empties it.
func MakeChainLine(chain Chain) string { return fmt.Sprintf(":%s - [0:0]", chain) }

// GetChainsFromTable returns the chains of a saved table.
func GetChainsFromTable(save []byte) set.Set[Chain] {
	chains := set.New[Chain]()
	for _, line := range strings.Split(string(save), "\n") {
		if name, ok := strings.CutPrefix(line, ":"); ok {
			chains.Insert(Chain(strings.SplitN(name, " ", 2)[0]))
		}
	}
	return chains
}

// IsNotFoundError is about a chain, or about a target that is one.
func IsNotFoundError(err error) bool {
	for _, words := range []string{"No such file or directory", "No chain/target/match by that name", "does not exist"} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}
