package main

import (
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// A judge numbers probes; every packet that is observed carries the number of its probe.
type judge struct {
	node  *node
	links map[string]*link

	mutex   sync.Mutex
	last    uint32
	waiting map[uint32]*waiting
	heard   time.Time
}

type waiting struct {
	probe   Probe
	outcome Outcome
}

func (j *judge) listen() {
	j.waiting = map[uint32]*waiting{}
	for name, one := range j.links {
		go one.receive(func(frame []byte) { j.onWire(name, frame) })
	}
	j.node.receive(j.onNode)
}

// The kernel's refusal of an answer without a socket on the node has the following number as its sequence.
const stride = 2

// The limit in flight, so that no socket buffer overflows.
const batch = 200

func (j *judge) send(probes []Probe, quiet time.Duration) ([]Outcome, error) {
	first := j.last + stride
	for at, probe := range probes {
		j.mutex.Lock()
		j.last += stride
		id := j.last
		j.waiting[id] = &waiting{probe: probe}
		j.heard = time.Now()
		j.mutex.Unlock()
		if err := j.sendOne(id, probe); err != nil {
			return nil, fmt.Errorf("cannot send %+v: %w", probe, err)
		}
		if at%batch == batch-1 {
			time.Sleep(time.Millisecond)
		}
	}
	j.waitForQuiet(quiet)
	j.mutex.Lock()
	defer j.mutex.Unlock()
	outcomes := make([]Outcome, len(probes))
	for at := range probes {
		outcome := j.waiting[first+stride*uint32(at)].outcome
		if outcome.Kind == "" {
			outcome.Kind = "drop"
		}
		outcomes[at] = outcome
	}
	j.waiting = map[uint32]*waiting{}
	return outcomes, nil
}

func (j *judge) sendOne(id uint32, probe Probe) error {
	source := netip.AddrPortFrom(netip.MustParseAddr(probe.Source), probe.Sport)
	target := netip.AddrPortFrom(netip.MustParseAddr(probe.Target), probe.Port)
	packet := build(id, probe.Protocol, source, target)
	if probe.Via == "" {
		return j.node.send(packet, target.Addr())
	}
	one, ok := j.links[probe.Via]
	if !ok {
		return fmt.Errorf("unknown link %s", probe.Via)
	}
	return one.send(packet)
}

func (j *judge) waitForQuiet(quiet time.Duration) {
	for {
		j.mutex.Lock()
		missing, refused := false, false
		for _, one := range j.waiting {
			// A closed port of the node refuses, too, and that may be seen before the packet itself.
			refused = refused || one.outcome.Kind == "reject"
			missing = missing || one.outcome.Kind == "" || (one.outcome.Kind == "forward" && !one.outcome.Back)
		}
		idle := time.Since(j.heard)
		j.mutex.Unlock()
		if idle >= quiet || (!missing && (!refused || idle >= quiet/8)) {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// onWire handles a packet from the node on a link: a forwarded probe, which is answered; a refusal; or the answer to a probe.
func (j *judge) onWire(name string, packet []byte) {
	seen, ok := read(packet)
	if !ok {
		return
	}
	answer := j.note(seen, name)
	if answer != nil {
		_ = j.links[name].send(answer)
	}
}

// onNode handles a packet that the node delivers to its own sockets.
func (j *judge) onNode(seen sighting) {
	j.note(seen, "")
}

// note records a sighting. It returns the answer to a probe that left on a wire.
func (j *judge) note(seen sighting, via string) []byte {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	one, ok := j.waiting[seen.id]
	if !ok {
		return nil
	}
	j.heard = time.Now()
	switch {
	case seen.kind == refusal:
		if one.outcome.Kind == "" {
			one.outcome.Kind = "reject"
		}
	case seen.kind == reply:
		asked := netip.AddrPortFrom(netip.MustParseAddr(one.probe.Target), one.probe.Port)
		one.outcome.Back = one.outcome.Back || (seen.source == asked && via == one.probe.Via)
	case via == "":
		// The node's own refusal of a closed port follows, and adds nothing.
		one.outcome.Kind = "local"
		one.outcome.Source = seen.source.Addr().String()
		one.outcome.Target = seen.target.Addr().String()
		one.outcome.Port = seen.target.Port()
	default:
		one.outcome.Kind = "forward"
		one.outcome.Via = via
		one.outcome.Source = seen.source.Addr().String()
		one.outcome.Target = seen.target.Addr().String()
		one.outcome.Port = seen.target.Port()
		return answerTo(seen)
	}
	return nil
}
