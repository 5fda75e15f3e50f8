package main

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
)

const (
	icmp4 = 1
	tcp   = 6
	udp   = 17
	icmp6 = 58
	sctp  = 132
)

const (
	fin = 0x01
	syn = 0x02
	rst = 0x04
	ack = 0x10
)

const (
	sctpInit    = 1
	sctpInitAck = 2
)

type kind int

const (
	asked kind = iota
	reply
	refusal
)

// A sighting is a packet that carries the number of a probe.
type sighting struct {
	id             uint32
	kind           kind
	protocol       uint8
	source, target netip.AddrPort
}

// build makes the IP packet of a probe.
func build(id uint32, protocol string, source, target netip.AddrPort) []byte {
	switch protocol {
	case "udp":
		return ip(udp, source, target, udpSegment(id, 0, source, target))
	case "sctp":
		return ip(sctp, source, target, sctpSegment(sctpInit, 0, id, source, target))
	case "tcp-rst":
		return ip(tcp, source, target, tcpSegment(id, 0, rst, source, target))
	default:
		return ip(tcp, source, target, tcpSegment(id, 0, syn, source, target))
	}
}

// answerTo makes the answer of a server: a datagram, a SYN with ACK, an INIT ACK. It has no answer to other packets.
func answerTo(seen sighting) []byte {
	source, target := seen.target, seen.source
	switch seen.protocol {
	case udp:
		return ip(udp, source, target, udpSegment(seen.id, 1, source, target))
	case tcp:
		return ip(tcp, source, target, tcpSegment(^seen.id, seen.id+1, syn|ack, source, target))
	default:
		return ip(sctp, source, target, sctpSegment(sctpInitAck, seen.id, ^seen.id, source, target))
	}
}

func udpSegment(id uint32, isReply byte, source, target netip.AddrPort) []byte {
	segment := make([]byte, 16)
	ports(segment, source, target)
	binary.BigEndian.PutUint16(segment[4:], uint16(len(segment)))
	binary.BigEndian.PutUint32(segment[8:], id)
	segment[12] = isReply
	binary.BigEndian.PutUint16(segment[6:], transportSum(udp, source, target, segment))
	return segment
}

func tcpSegment(sequence, acknowledged uint32, flags byte, source, target netip.AddrPort) []byte {
	segment := make([]byte, 20)
	ports(segment, source, target)
	binary.BigEndian.PutUint32(segment[4:], sequence)
	binary.BigEndian.PutUint32(segment[8:], acknowledged)
	segment[12] = 5 << 4
	segment[13] = flags
	binary.BigEndian.PutUint16(segment[14:], 65535)
	binary.BigEndian.PutUint16(segment[16:], transportSum(tcp, source, target, segment))
	return segment
}

// RFC 9260, 3.3.2 and 3.3.3. The verification tag of an INIT ACK is the initiate tag of its INIT.
func sctpSegment(chunk byte, verification, initiate uint32, source, target netip.AddrPort) []byte {
	segment := make([]byte, 12+20)
	ports(segment, source, target)
	binary.BigEndian.PutUint32(segment[4:], verification)
	segment[12] = chunk
	binary.BigEndian.PutUint16(segment[14:], 20)
	binary.BigEndian.PutUint32(segment[16:], initiate)
	binary.BigEndian.PutUint32(segment[20:], 65535)
	binary.BigEndian.PutUint16(segment[24:], 1)
	binary.BigEndian.PutUint16(segment[26:], 1)
	binary.BigEndian.PutUint32(segment[28:], initiate)
	sum := crc32.Checksum(segment, crc32.MakeTable(crc32.Castagnoli))
	binary.LittleEndian.PutUint32(segment[8:], sum)
	return segment
}

func ports(segment []byte, source, target netip.AddrPort) {
	binary.BigEndian.PutUint16(segment, source.Port())
	binary.BigEndian.PutUint16(segment[2:], target.Port())
}

func ip(protocol uint8, source, target netip.AddrPort, segment []byte) []byte {
	from, to := source.Addr().AsSlice(), target.Addr().AsSlice()
	if source.Addr().Is4() {
		header := make([]byte, 20)
		header[0] = 4<<4 | 5
		binary.BigEndian.PutUint16(header[2:], uint16(20+len(segment)))
		header[8] = 64
		header[9] = protocol
		copy(header[12:], from)
		copy(header[16:], to)
		binary.BigEndian.PutUint16(header[10:], fold(sum(0, header)))
		return append(header, segment...)
	}
	header := make([]byte, 40)
	header[0] = 6 << 4
	binary.BigEndian.PutUint16(header[4:], uint16(len(segment)))
	header[6] = protocol
	header[7] = 64
	copy(header[8:], from)
	copy(header[24:], to)
	return append(header, segment...)
}

func transportSum(protocol uint8, source, target netip.AddrPort, segment []byte) uint16 {
	total := sum(0, source.Addr().AsSlice())
	total = sum(total, target.Addr().AsSlice())
	total += uint32(protocol) + uint32(len(segment))
	return fold(sum(total, segment))
}

func sum(total uint32, bytes []byte) uint32 {
	for at := 0; at+1 < len(bytes); at += 2 {
		total += uint32(binary.BigEndian.Uint16(bytes[at:]))
	}
	if len(bytes)%2 == 1 {
		total += uint32(bytes[len(bytes)-1]) << 8
	}
	return total
}

func fold(total uint32) uint16 {
	for total>>16 != 0 {
		total = total&0xffff + total>>16
	}
	return ^uint16(total)
}

// read finds the number of a probe in an IP packet.
func read(packet []byte) (sighting, bool) {
	protocol, source, target, segment, ok := readIP(packet)
	if !ok {
		return sighting{}, false
	}
	return readSegment(protocol, source, target, segment)
}

func readIP(packet []byte) (protocol uint8, source, target netip.Addr, segment []byte, ok bool) {
	if len(packet) >= 20 && packet[0]>>4 == 4 {
		length := int(packet[0]&15) * 4
		if len(packet) < length {
			return
		}
		source, _ = netip.AddrFromSlice(packet[12:16])
		target, _ = netip.AddrFromSlice(packet[16:20])
		return packet[9], source, target, packet[length:], true
	}
	if len(packet) >= 40 && packet[0]>>4 == 6 {
		source, _ = netip.AddrFromSlice(packet[8:24])
		target, _ = netip.AddrFromSlice(packet[24:40])
		return packet[6], source, target, packet[40:], true
	}
	return
}

func readSegment(protocol uint8, from, to netip.Addr, segment []byte) (seen sighting, ok bool) {
	if len(segment) < 8 {
		return
	}
	if (protocol == icmp4 && segment[0] == 3) || (protocol == icmp6 && segment[0] == 1) {
		return readRefused(segment[8:])
	}
	seen.protocol = protocol
	seen.source = netip.AddrPortFrom(from, binary.BigEndian.Uint16(segment))
	seen.target = netip.AddrPortFrom(to, binary.BigEndian.Uint16(segment[2:]))
	switch {
	case protocol == udp && len(segment) >= 13:
		seen.id = binary.BigEndian.Uint32(segment[8:])
		if segment[12] == 1 {
			seen.kind = reply
		}
	case protocol == tcp && len(segment) >= 20:
		seen.id, seen.kind = readTCP(segment)
	case protocol == sctp && len(segment) >= 20:
		seen.id = binary.BigEndian.Uint32(segment[16:])
		if segment[12] == sctpInitAck {
			seen.id = binary.BigEndian.Uint32(segment[4:])
			seen.kind = reply
		}
	default:
		return seen, false
	}
	return seen, true
}

func readTCP(segment []byte) (uint32, kind) {
	sequence, acknowledged := binary.BigEndian.Uint32(segment[4:]), binary.BigEndian.Uint32(segment[8:])
	switch flags := segment[13]; {
	case flags&ack != 0 && flags&rst != 0:
		return acknowledged - 1, refusal
	case flags&ack != 0:
		return acknowledged - 1, reply
	default:
		return sequence, asked
	}
}

// readRefused finds the probe inside of an ICMP error, with the addresses of its sender.
func readRefused(packet []byte) (sighting, bool) {
	protocol, source, target, segment, ok := readIP(packet)
	if !ok || protocol == icmp4 || protocol == icmp6 {
		return sighting{}, false
	}
	seen := sighting{kind: refusal, source: netip.AddrPortFrom(source, 0), target: netip.AddrPortFrom(target, 0)}
	switch {
	case protocol == tcp && len(segment) >= 8:
		seen.id = binary.BigEndian.Uint32(segment[4:])
	case protocol == udp && len(segment) >= 12:
		seen.id = binary.BigEndian.Uint32(segment[8:])
	case protocol == sctp && len(segment) >= 20:
		seen.id = binary.BigEndian.Uint32(segment[16:])
	default:
		return seen, false
	}
	return seen, true
}
