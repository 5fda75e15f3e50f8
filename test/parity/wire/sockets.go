package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// A link is the far end of a wire to the node.
type link struct {
	socket int
	index  int
}

// The node's ends of all wires have this address (see wire.ts).
var nodeMAC = [6]byte{2, 0, 0, 0, 0, 1}

const everyProtocol = 0x0300 // ETH_P_ALL, in network order

func openLink(name string) (*link, error) {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("cannot find link %s: %w", name, err)
	}
	socket, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_DGRAM, everyProtocol)
	if err != nil {
		return nil, fmt.Errorf("cannot open a packet socket: %w", err)
	}
	address := syscall.SockaddrLinklayer{Protocol: everyProtocol, Ifindex: device.Index}
	if err := syscall.Bind(socket, &address); err != nil {
		return nil, fmt.Errorf("cannot bind to link %s: %w", name, err)
	}
	_ = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, 1<<25)
	return &link{socket: socket, index: device.Index}, nil
}

func (l *link) send(packet []byte) error {
	protocol := uint16(syscall.ETH_P_IP)
	if packet[0]>>4 == 6 {
		protocol = syscall.ETH_P_IPV6
	}
	to := syscall.SockaddrLinklayer{Protocol: protocol<<8 | protocol>>8, Ifindex: l.index, Halen: 6}
	copy(to.Addr[:], nodeMAC[:])
	return syscall.Sendto(l.socket, packet, 0, &to)
}

func (l *link) receive(take func([]byte)) {
	buffer := make([]byte, 65536)
	for {
		n, from, err := syscall.Recvfrom(l.socket, buffer, 0)
		if err != nil {
			continue
		}
		if at, ok := from.(*syscall.SockaddrLinklayer); ok && at.Pkttype == syscall.PACKET_OUTGOING {
			continue
		}
		take(buffer[:n])
	}
}

// A node has the sockets inside of the node's network namespace.
type node struct {
	out4, out6 int
	in         []nodeSocket
}

type nodeSocket struct {
	socket   int
	protocol int
	isIPv6   bool
}

var heardProtocols = []struct {
	protocol int
	isIPv6   bool
}{{tcp, false}, {udp, false}, {sctp, false}, {icmp4, false}, {tcp, true}, {udp, true}, {sctp, true}, {icmp6, true}}

// openNode opens sockets in another namespace: a socket stays in the namespace of its creation.
func openNode(path string) (*node, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	done := make(chan error)
	made := &node{}
	go func() {
		// The thread ends with the goroutine: it is locked, and never unlocked.
		runtime.LockOSThread()
		if _, _, errno := syscall.RawSyscall(setns[runtime.GOARCH], file.Fd(), syscall.CLONE_NEWNET, 0); errno != 0 {
			done <- fmt.Errorf("cannot enter %s: %w", path, errno)
			return
		}
		done <- made.open()
	}()
	return made, <-done
}

// The number of setns(2), which package syscall lacks.
var setns = map[string]uintptr{"amd64": 308, "arm64": 268}

func (n *node) open() (err error) {
	if n.out4, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_RAW); err != nil {
		return err
	}
	if n.out6, err = syscall.Socket(syscall.AF_INET6, syscall.SOCK_RAW, syscall.IPPROTO_RAW); err != nil {
		return err
	}
	for _, one := range heardProtocols {
		family := syscall.AF_INET
		if one.isIPv6 {
			family = syscall.AF_INET6
		}
		socket, err := syscall.Socket(family, syscall.SOCK_RAW, one.protocol)
		if err != nil {
			return err
		}
		_ = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, 1<<24)
		if one.isIPv6 {
			if err := syscall.SetsockoptInt(socket, syscall.IPPROTO_IPV6, syscall.IPV6_RECVPKTINFO, 1); err != nil {
				return err
			}
		}
		n.in = append(n.in, nodeSocket{socket, one.protocol, one.isIPv6})
	}
	return nil
}

// send sends a packet from the node. A rule that drops it makes the call fail, which is not an error.
func (n *node) send(packet []byte, target netip.Addr) error {
	var err error
	if target.Is4() {
		err = syscall.Sendto(n.out4, packet, 0, &syscall.SockaddrInet4{Addr: target.As4()})
	} else {
		err = syscall.Sendto(n.out6, packet, 0, &syscall.SockaddrInet6{Addr: target.As16()})
	}
	// A rule, or a route that takes no such source, refuses the packet: nobody sees it.
	if err == syscall.EPERM || err == syscall.EINVAL {
		return nil
	}
	return err
}

func (n *node) receive(take func(sighting)) {
	for _, one := range n.in {
		if one.isIPv6 {
			go one.receive6(take)
		} else {
			go one.receive4(take)
		}
	}
}

func (s nodeSocket) receive4(take func(sighting)) {
	buffer := make([]byte, 65536)
	for {
		n, _, err := syscall.Recvfrom(s.socket, buffer, 0)
		if err != nil {
			continue
		}
		if seen, ok := read(buffer[:n]); ok {
			take(seen)
		}
	}
}

// A raw IPv6 socket gives no header: the addresses come as ancillary data.
func (s nodeSocket) receive6(take func(sighting)) {
	buffer, beside := make([]byte, 65536), make([]byte, 512)
	for {
		n, besideLength, _, from, err := syscall.Recvmsg(s.socket, buffer, beside, 0)
		if err != nil {
			continue
		}
		sender, ok := from.(*syscall.SockaddrInet6)
		if !ok {
			continue
		}
		source := netip.AddrFrom16(sender.Addr)
		target := targetOf(beside[:besideLength])
		if seen, ok := readSegment(uint8(s.protocol), source, target, buffer[:n]); ok {
			take(seen)
		}
	}
}

func targetOf(beside []byte) netip.Addr {
	messages, err := syscall.ParseSocketControlMessage(beside)
	if err != nil {
		return netip.Addr{}
	}
	for _, message := range messages {
		isTarget := message.Header.Level == syscall.IPPROTO_IPV6 && message.Header.Type == syscall.IPV6_PKTINFO
		if isTarget && len(message.Data) >= int(unsafe.Sizeof(syscall.Inet6Pktinfo{})) {
			return netip.AddrFrom16([16]byte(message.Data[:16]))
		}
	}
	return netip.Addr{}
}
