// Opens connections through Services: UDP, one datagram each, from a socket of its own, so that each meets the rules of nat.
//
//	open time COUNT < TARGETS
//
// prints the microseconds of the sendto that opens a connection, the tenth percentile, as a number.
//
//	open flood CLIENT_NETNS POD_NETNS PORT TARGET...
//
// sends from one network namespace and receives in another one. On standard input a line with the connections a second begins a run, and
// the next line ends it; then its result is one JSON line on standard output. It ends with its standard input.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "time":
		err = timeOpening(os.Args[2])
	case len(os.Args) > 5 && os.Args[1] == "flood":
		err = flood(os.Args[2], os.Args[3], os.Args[4], os.Args[5:])
	default:
		err = fmt.Errorf("usage: open time COUNT | open flood CLIENT_NETNS POD_NETNS PORT TARGET...")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "open:", err)
		os.Exit(1)
	}
}

// targets reads addresses with ports.
func targets(texts []string) ([]*syscall.SockaddrInet4, error) {
	var found []*syscall.SockaddrInet4
	for _, text := range texts {
		one, err := netip.ParseAddrPort(text)
		if err != nil {
			return nil, err
		}
		found = append(found, &syscall.SockaddrInet4{Port: int(one.Port()), Addr: one.Addr().As4()})
	}
	return found, nil
}

func timeOpening(text string) error {
	count, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	var lines []string
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		lines = append(lines, input.Text())
	}
	to, err := targets(lines)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	payload := []byte("x")
	took := make([]time.Duration, count)
	for i := range took {
		socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		// A prime step: neighbours in a list must not be neighbours in time.
		target := to[i*7919%len(to)]
		began := time.Now()
		err = syscall.Sendto(socket, payload, 0, target)
		took[i] = time.Since(began)
		if err != nil {
			return err
		}
		_ = syscall.Close(socket)
	}
	slices.Sort(took)
	fmt.Printf("%.3f\n", float64(took[count/10].Nanoseconds())/1000)
	return nil
}

// A run is some time at one rate.
type run struct {
	Seconds float64 `json:"seconds"`
	Sent    int     `json:"sent"`
	Lost    int     `json:"lost"`
}

// The most connections of all runs together: the receiver has a byte for each.
const numbers = 1 << 27

func flood(client, pods, port string, texts []string) error {
	to, err := targets(texts)
	if err != nil {
		return err
	}
	at, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	arrived := make([]byte, numbers)
	ready := make(chan error)
	go func() { ready <- receive(pods, at, arrived) }()
	if err := <-ready; err != nil {
		return err
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for input := bufio.NewScanner(os.Stdin); input.Scan(); {
			lines <- input.Text()
		}
	}()
	if err := enter(client); err != nil {
		return err
	}
	first := 0
	for line := range lines {
		rate, err := strconv.Atoi(line)
		if err != nil {
			return err
		}
		ended, err := send(to, rate, first, lines)
		if err != nil {
			return err
		}
		// What is in flight arrives; on a busy machine the receiver is behind by more than that.
		for tries := 0; tries == 0 || ended.Lost > 0 && tries < 20; tries++ {
			time.Sleep(500 * time.Millisecond)
			ended.Lost = bytes.Count(arrived[first:first+ended.Sent], []byte{0})
		}
		first += ended.Sent
		if err := json.NewEncoder(os.Stdout).Encode(ended); err != nil {
			return err
		}
	}
	return nil
}

// send opens connections until a line comes. A datagram has the number of its connection.
func send(to []*syscall.SockaddrInet4, rate, first int, lines <-chan string) (ended run, err error) {
	payload := make([]byte, 8)
	began := time.Now()
	for {
		select {
		case <-lines:
			ended.Seconds = time.Since(began).Seconds()
			return ended, nil
		case <-time.After(time.Millisecond):
		}
		for due := int(time.Since(began).Seconds() * float64(rate)); ended.Sent < due; ended.Sent++ {
			number := first + ended.Sent
			if number == numbers {
				return ended, fmt.Errorf("more than %d connections", numbers)
			}
			binary.LittleEndian.PutUint64(payload, uint64(number))
			socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
			if err != nil {
				return ended, err
			}
			if err := syscall.Sendto(socket, payload, 0, to[number%len(to)]); err != nil {
				return ended, err
			}
			_ = syscall.Close(socket)
		}
	}
}

// receive opens a port in a network namespace, and notes in the background which numbers arrive.
func receive(pods string, port int, arrived []byte) error {
	if err := enter(pods); err != nil {
		return err
	}
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, 1<<27); err != nil {
		return err
	}
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Port: port}); err != nil {
		return err
	}
	go func() {
		runtime.LockOSThread()
		payload := make([]byte, 8)
		for {
			if n, _, err := syscall.Recvfrom(socket, payload, 0); err == nil && n == len(payload) {
				arrived[binary.LittleEndian.Uint64(payload)] = 1
			}
		}
	}()
	return nil
}

// enter moves the thread of this goroutine, which it keeps, into a network namespace.
func enter(namespace string) error {
	runtime.LockOSThread()
	file, err := os.Open("/run/netns/" + namespace)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, _, errno := syscall.RawSyscall(setns[runtime.GOARCH], file.Fd(), syscall.CLONE_NEWNET, 0); errno != 0 {
		return fmt.Errorf("cannot enter %s: %w", namespace, errno)
	}
	return nil
}

// The number of setns(2), which package syscall lacks.
var setns = map[string]uintptr{"amd64": 308, "arm64": 268}
