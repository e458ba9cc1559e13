package nodedtest

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/noded"
)

// Node is the daemon as a target of calls.
func (d *Daemon) Node() noded.Node {
	host, _, _ := net.SplitHostPort(d.Address())
	return noded.Node{Name: d.Name, Address: host}
}

// Address is the address with the port.
func (d *Daemon) Address() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.listen
}

// Inject sets the fault of the calls that begin from now on.
func (d *Daemon) Inject(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = f
}

// UseCertificate sets the certificate of the connections from now on.
func (d *Daemon) UseCertificate(i *Identity) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.server = i
}

// Admit makes the daemon accept clients with these certificates, and no others.
func (d *Daemon) Admit(clients ...*Identity) {
	d.mu.Lock()
	defer d.mu.Unlock()
	content := ""
	for _, c := range clients {
		content += "uuid-of-a-node=" + c.Digest() + "\n"
	}
	d.files[ssconfPath("master_candidates_certs")] = content
}

// Hold makes calls wait, after they were recorded and before they are executed, until release is called.
func (d *Daemon) Hold() (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := make(chan struct{})
	d.held = held
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		close(held)
		d.held = nil
	})
}

// Pause makes each call take a time at least, for measurements.
func (d *Daemon) Pause(pause time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pause = pause
}

// HoldHandshakes makes connections wait in the TLS handshake until release is called. A second release does nothing.
func (d *Daemon) HoldHandshakes() (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	hands := make(chan struct{})
	d.hands = hands
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		close(hands)
		d.hands = nil
	})
}

// Say sets the result of a procedure that changes nothing, in JSON. Without it the daemon answers with an error.
func (d *Daemon) Say(p noded.Procedure, result string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.says[p] = result
}

// Calls returns the calls so far, in the order of their arrival.
func (d *Daemon) Calls() []Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// Await waits until there have been count calls, and returns them.
func (d *Daemon) Await(count int) []Call {
	d.t.Helper()
	return d.awaitState(func() bool { return len(d.calls) >= count })
}

// AwaitFile waits until a file has a content.
func (d *Daemon) AwaitFile(path, content string) {
	d.t.Helper()
	d.awaitState(func() bool { return d.files[path] == content })
}

func (d *Daemon) awaitState(is func() bool) []Call {
	d.t.Helper()
	late := false
	timer := time.AfterFunc(20*time.Second, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		late = true
		d.cond.Broadcast()
	})
	defer timer.Stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	for !is() && !late {
		d.cond.Wait()
	}
	require.True(d.t, is(), "the node daemon %s has got %d calls", d.Name, len(d.calls))
	return slices.Clone(d.calls)
}

// MostAtOnce returns the largest number of calls in progress at the same time.
func (d *Daemon) MostAtOnce() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.most
}

// File returns the content of a file; "" if it does not exist.
func (d *Daemon) File(path string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files[path]
}

// AwaitFiles waits until a condition on the files holds. The condition gets the files by path and must not keep them.
func (d *Daemon) AwaitFiles(is func(files map[string]string) bool) {
	d.t.Helper()
	d.awaitState(func() bool { return is(d.files) })
}

// Put makes a file, as another program of the node does.
func (d *Daemon) Put(path, content string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[path] = content
	d.cond.Broadcast()
}

// Has reports whether a file exists.
func (d *Daemon) Has(path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, exists := d.files[path]
	return exists
}
