// The wires of one node under test. It sends single packets, on the wires as a pod or a machine outside would and from the node's own
// sockets, and reports the outcome of each: the address it left for, delivery on the node itself, a refusal, or a drop.
//
//	wire NODE_NETNS LINK...
//
// runs in the network namespace that holds the far ends of the links. One JSON request a line on standard input, one JSON answer a line
// on standard output. It ends with its standard input.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// A Probe is one packet of a flow. Two probes with the same addresses and ports belong to one connection.
type Probe struct {
	// Via is the link on which it arrives; empty: the node sends it.
	Via string `json:"via"`
	// Protocol is udp, tcp (a SYN), sctp (an INIT), or tcp-rst: a RST without a connection, which conntrack calls invalid.
	Protocol string `json:"protocol"`
	Source   string `json:"source"`
	Sport    uint16 `json:"sport"`
	Target   string `json:"target"`
	Port     uint16 `json:"port"`
}

// An Outcome is the result of a probe.
type Outcome struct {
	// Kind is forward, local, reject or drop.
	Kind string `json:"kind"`
	// Via is the link it left by.
	Via string `json:"via,omitempty"`
	// Source, Target and Port are those at its end.
	Source string `json:"source,omitempty"`
	Target string `json:"target,omitempty"`
	Port   uint16 `json:"port,omitempty"`
	// Back reports whether the answer had the address of the request as its source.
	Back bool `json:"back,omitempty"`
}

type request struct {
	// QuietMs is the silence after which probes without an outcome count as dropped.
	QuietMs int     `json:"quietMs"`
	Probes  []Probe `json:"probes"`
}

func main() {
	if len(os.Args) < 3 {
		fail(fmt.Errorf("usage: wire NODE_NETNS LINK..."))
	}
	node, err := openNode(os.Args[1])
	if err != nil {
		fail(err)
	}
	links := map[string]*link{}
	for _, name := range os.Args[2:] {
		if links[name], err = openLink(name); err != nil {
			fail(err)
		}
	}
	judge := &judge{node: node, links: links}
	judge.listen()
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	answers := json.NewEncoder(os.Stdout)
	for {
		line, err := input.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked request
		if err := json.Unmarshal(line, &asked); err != nil {
			fail(err)
		}
		outcomes, err := judge.send(asked.Probes, time.Duration(asked.QuietMs)*time.Millisecond)
		if err != nil {
			fail(err)
		}
		if err := answers.Encode(outcomes); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "wire:", err)
	os.Exit(1)
}
