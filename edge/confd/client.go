package confd

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"time"

	"lockstep/core/confd"
)

// resendInterval is the pause between two sendings of a query: datagrams get lost.
const resendInterval = 250 * time.Millisecond

// Answer is what one node has answered to a query of ConfD, or why it has not.
type Answer struct {
	Address string
	Reply   confd.Reply
	// ConfigSerial is the serial number of the node's configuration when it was asked, 0 if the node has none. Reply is not older.
	ConfigSerial int64
	Err          error // it has not answered
}

// stragglersMax is how long the other nodes have to answer after one node has answered with status 0: a dead node delays nothing.
const stragglersMax = 500 * time.Millisecond

// AskAll asks all nodes at the same time, and returns their answers in the order of the addresses. It returns when each has answered,
// stragglersMax after the first success, or when ctx ends.
func AskAll(ctx context.Context, key []byte, addresses []string, q confd.Query) []Answer {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make([]Answer, len(addresses))
	var asking sync.WaitGroup
	for i, address := range addresses {
		asking.Go(func() {
			answers[i] = ask(ctx, key, address, q)
			if answers[i].Err == nil && answers[i].Reply.Status == confd.StatusOK {
				time.AfterFunc(stragglersMax, cancel)
			}
		})
	}
	asking.Wait()
	return answers
}

// Freshest returns the index of the best answer: one with status 0, among these the one with the highest ConfigSerial, among these the
// first. It returns -1 if no node has answered.
func Freshest(answers []Answer) int {
	best := -1
	for i, a := range answers {
		if a.Err == nil && (best < 0 || a.betterThan(&answers[best])) {
			best = i
		}
	}
	return best
}

func (a *Answer) betterThan(b *Answer) bool {
	if aOK, bOK := a.Reply.Status == confd.StatusOK, b.Reply.Status == confd.StatusOK; aOK != bOK {
		return aOK
	}
	return a.ConfigSerial > b.ConfigSerial
}

// ask asks one node for the serial number of its configuration, and then the query. Err of the answer says why one of the two has no
// answer.
func ask(ctx context.Context, key []byte, address string, q confd.Query) Answer {
	answer := Answer{Address: address}
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", address)
	if err != nil {
		answer.Err = err
		return answer
	}
	defer conn.Close()
	serial, err := exchange(ctx, conn, key, confd.Query{Type: confd.ConfigPath, Argument: json.RawMessage(`"/serial_no"`)})
	if err == nil && serial.Status == confd.StatusOK {
		err = json.Unmarshal(serial.Answer, &answer.ConfigSerial)
	}
	if err == nil {
		answer.Reply, err = exchange(ctx, conn, key, q)
	}
	answer.Err = err
	return answer
}

// errNoAnswer is the error after no answer came in time. The other end is silent about every defect of a query.
var errNoAnswer = errors.New("no answer: the node is down, its clock differs by more than five minutes, or it has another key")

// exchange sends a query every resendInterval until its answer comes or ctx ends.
func exchange(ctx context.Context, conn net.Conn, key []byte, q confd.Query) (confd.Reply, error) {
	salt := confd.NewSalt(randomOctets)
	buffer := make([]byte, packetMax)
	for {
		if _, err := conn.Write(q.Request(key, time.Now(), salt)); err != nil && ctx.Err() != nil {
			return confd.Reply{}, err
		}
		reply, err := receive(ctx, conn, key, salt, buffer)
		switch {
		case err == nil:
			return reply, nil
		case ctx.Err() != nil:
			return confd.Reply{}, errNoAnswer
		case !errors.As(err, new(net.Error)):
			return confd.Reply{}, err
		}
		if !isTimeout(err) { // the port is closed; it may open again
			select {
			case <-ctx.Done():
				return confd.Reply{}, err
			case <-time.After(resendInterval):
			}
		}
	}
}

func isTimeout(err error) bool {
	var failed net.Error
	return errors.As(err, &failed) && failed.Timeout()
}

// receive waits for the answer with a salt, for resendInterval or until ctx ends. Other datagrams are ignored.
func receive(ctx context.Context, conn net.Conn, key []byte, salt string, buffer []byte) (confd.Reply, error) {
	end := time.Now().Add(resendInterval)
	if deadline, has := ctx.Deadline(); has && deadline.Before(end) {
		end = deadline
	}
	if err := conn.SetReadDeadline(end); err != nil {
		return confd.Reply{}, err
	}
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return confd.Reply{}, err
		}
		if reply, of, err := confd.ParseReply(key, buffer[:n]); err == nil && of == salt {
			return reply, nil
		}
	}
}

func randomOctets(count int) []byte {
	b := make([]byte, count)
	_, _ = rand.Read(b) // never fails
	return b
}
