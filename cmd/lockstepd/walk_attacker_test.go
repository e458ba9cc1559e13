package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// attackStep makes the program of the test the attacker of TestNobodyStandsInAnothersWay.
const attackStep = "attack"

// The attacks. Each is bounded in connections and ends with the next line of the test.
const (
	slowReader = "slow reader" // asks for much and takes 4 kB a second of the answers
	slowWriter = "slow writer" // sends all but the end of a request, then a byte a second
	flood      = "flood"       // asks as fast as answers come
	largest    = "largest"     // asks for as much work, and sends as much, as one request may
)

var attacks = []string{slowReader, slowWriter, flood, largest}

// target is one request at one door.
type target struct {
	Network, Address string
	Request          []byte // whole, but for filler
	Filler           int    // bytes that stand where fillerMark is
	HTTP             bool   // else answers are frames
	Protocol         string // of the port of nodes, over TLS; "": no TLS
}

// over returns the connection over which the request is sent.
func (t *target) over(c net.Conn) net.Conn {
	if t.Protocol == "" {
		return c
	}
	_ = c.SetDeadline(time.Now().Add(10 * time.Second)) // for the handshake, which the first write makes
	return tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{t.Protocol}})
}

// fillerMark is where a request has its filler, which would make an order too long.
const fillerMark = "@@"

// attack is what the test orders, one line of JSON.
type attack struct {
	Kind        string
	Connections int
	Targets     []target
}

// attackerMain performs the attacks that the lines of its input name, one after the other. It answers "up" when an attack is
// under way, and the number of answers that it got when the next line has ended it.
//
// It has the lowest priority, because an attacker's processor is not the daemon's.
func attackerMain() {
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19)
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 64<<20)
	for input.Scan() {
		var a attack
		if err := json.Unmarshal(input.Bytes(), &a); err != nil {
			fmt.Println("not an attack:", err)
			os.Exit(1)
		}
		for i, t := range a.Targets {
			a.Targets[i].Request = bytes.Replace(t.Request, []byte(fillerMark), bytes.Repeat([]byte("x"), t.Filler), 1)
		}
		r := &attackRun{attack: a, ended: make(chan struct{}), conns: map[net.Conn]bool{}}
		r.start()
		fmt.Println("up")
		input.Scan()
		r.end()
		fmt.Println(r.answers.Load())
	}
	os.Exit(0)
}

// attackRun is one attack under way.
type attackRun struct {
	attack
	answers atomic.Int64
	ended   chan struct{}
	workers sync.WaitGroup
	ready   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil: ended
}

// start returns when each worker has come as far as the attack goes with its first connection, or has been refused.
func (r *attackRun) start() {
	for i := range r.Connections {
		r.workers.Add(1)
		r.ready.Add(1)
		go r.work(r.Targets[i%len(r.Targets)])
	}
	r.ready.Wait()
}

func (r *attackRun) end() {
	close(r.ended)
	r.mu.Lock()
	for c := range r.conns {
		_ = c.Close()
	}
	r.conns = nil
	r.mu.Unlock()
	r.workers.Wait()
}

// pause waits, and reports whether the attack goes on.
func (r *attackRun) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-r.ended:
		return false
	}
}

// dial connects; nil means that the attack has ended or the door is shut.
func (r *attackRun) dial(t target) net.Conn {
	c, err := net.DialTimeout(t.Network, t.Address, time.Second)
	if err != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conns == nil {
		_ = c.Close()
		return nil
	}
	r.conns[c] = true
	return c
}

func (r *attackRun) hangUp(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	delete(r.conns, c)
	r.mu.Unlock()
}

// work attacks with one connection at a time. A connection that the daemon closes is opened again, at most ten times a second.
func (r *attackRun) work(t target) {
	defer r.workers.Done()
	for first := true; ; first = false {
		if c := r.dial(t); c != nil {
			begun := func() {
				if first {
					first = false
					r.ready.Done()
				}
			}
			if t.Network == "udp" {
				r.blast(c, t, begun)
			} else {
				r.use(c, t, begun)
			}
			r.hangUp(c)
		}
		if first {
			r.ready.Done()
		}
		if !r.pause(100 * time.Millisecond) {
			return
		}
	}
}

// use attacks over one connection until it breaks. It calls begun once the attack is under way.
func (r *attackRun) use(c net.Conn, t target, begun func()) {
	if tcp, ok := c.(*net.TCPConn); ok && r.Kind == slowReader {
		_ = tcp.SetReadBuffer(4 << 10)
	}
	c = t.over(c)
	switch r.Kind {
	case slowWriter:
		sent := max(len(t.Request)-60, len(t.Request)/2)
		if _, err := c.Write(t.Request[:sent]); err != nil {
			return
		}
		begun()
		for _, b := range t.Request[sent:] {
			if !r.pause(time.Second) {
				return
			}
			if _, err := c.Write([]byte{b}); err != nil {
				return
			}
		}
	case slowReader:
		if _, err := c.Write(t.Request); err != nil {
			return
		}
		begun()
		for piece := make([]byte, 400); r.pause(100 * time.Millisecond); {
			if _, err := c.Read(piece); err != nil {
				return
			}
		}
	default:
		r.ask(c, t, begun)
	}
}

// blast sends packets, which nobody has to take: slow ones ten times a second, others as fast as possible.
func (r *attackRun) blast(c net.Conn, t target, begun func()) {
	begun()
	for r.Kind == flood || r.Kind == largest || r.pause(100*time.Millisecond) {
		select {
		case <-r.ended:
			return
		default:
		}
		_, _ = c.Write(t.Request)
	}
}

// ask sends the request again and again. An answer that does not end within two seconds, such as a stream, ends the connection.
func (r *attackRun) ask(c net.Conn, t target, begun func()) {
	answers := bufio.NewReaderSize(c, 64<<10)
	for {
		_ = c.SetDeadline(time.Now().Add(2 * time.Second))
		if _, err := c.Write(t.Request); err != nil {
			return
		}
		begun()
		if t.HTTP {
			response, err := http.ReadResponse(answers, nil) //nolint:bodyclose // the connection is closed with it
			if err != nil {
				return
			}
			if _, err = io.Copy(io.Discard, response.Body); err != nil || response.Close {
				return
			}
		} else if !skipFrame(answers) {
			return
		}
		r.answers.Add(1)
		select {
		case <-r.ended:
			return
		default:
		}
	}
}

// skipFrame reads to the end of a frame.
func skipFrame(answers *bufio.Reader) bool {
	for {
		piece, err := answers.ReadSlice(0x03)
		if err == nil {
			return len(piece) > 0 && bytes.HasSuffix(piece, []byte{0x03})
		}
		if err != bufio.ErrBufferFull {
			return false
		}
	}
}
