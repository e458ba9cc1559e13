package mond

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/monitor"
	"lockstep/core/confd"
	core "lockstep/core/monitor"
	edgeconfd "lockstep/edge/confd"
)

// candidatesTimeout bounds all questions of one round.
const candidatesTimeout = 10 * time.Second

// instancesAtATime bounds the concurrent questions about the disks of instances.
const instancesAtATime = 8

// Candidates asks the ConfDs of all candidates what a node without a copy of the configuration needs. It implements the port
// Candidates of package actors/monitor, and owns nothing but the questions in progress.
type Candidates struct {
	System    *actor.ActorSystem
	Key       func() ([]byte, error) // reads hmac.key, which may change
	Addresses func() []string        // of the ConfDs, host:port
}

// Ask is part of monitor.Candidates. It returns at once; to gets what the candidates say of a node, with the number, or an error.
func (c *Candidates) Ask(number uint64, node string, to *actor.PID) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), candidatesTimeout)
		defer cancel()
		answers, err := c.ask(ctx, node)
		c.System.Root.Send(to, &monitor.Answered{Number: number, Answers: answers, Err: err})
	}()
}

// round is one Ask: the questions to the ConfDs of the candidates with which it is answered.
type round struct {
	ctx       context.Context
	key       []byte
	addresses []string // of the candidates that have answered the first question

	mu     sync.Mutex
	serial int64 // lowest serial number of the configurations that the answers are about
}

func (c *Candidates) ask(ctx context.Context, node string) (core.Answers, error) {
	key, err := c.Key()
	if err != nil {
		return core.Answers{}, fmt.Errorf("read the key of ConfD: %w", err)
	}
	r := &round{ctx: ctx, key: key, addresses: c.Addresses()}
	var a core.Answers
	if a.Collectors, err = r.query(confd.DataCollectors, nil); err != nil {
		return a, err
	}
	name, err := json.Marshal(node)
	if err != nil {
		return a, err
	}
	if a.Minors, err = r.query(confd.NodeDRBD, name); err != nil {
		return a, err
	}
	if a.Instances, err = r.query(confd.NodeInstances, name); err != nil {
		return a, err
	}
	if a.Disks, err = r.disks(a.Instances); err != nil {
		return a, err
	}
	a.Serial = r.serial
	return a, nil
}

// query asks all candidates and returns the freshest answer. It keeps the lowest serial of the round. A candidate that has not answered
// the first question is not asked again in this round.
func (r *round) query(kind confd.Type, argument json.RawMessage) (json.RawMessage, error) {
	answers := edgeconfd.AskAll(r.ctx, r.key, r.addresses, confd.Query{Type: kind, Argument: argument})
	best := edgeconfd.Freshest(answers)
	if best < 0 {
		return nil, errors.New("no candidate answers")
	}
	found := answers[best]
	if found.Reply.Status != confd.StatusOK {
		return nil, fmt.Errorf("the answer to a query of type %d has status %d", kind, found.Reply.Status)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.serial == 0 || found.ConfigSerial < r.serial {
		r.serial = found.ConfigSerial
	}
	if kind == confd.DataCollectors { // the first question
		var alive []string
		for _, a := range answers {
			if a.Err == nil {
				alive = append(alive, a.Address)
			}
		}
		r.addresses = alive
	}
	return found.Reply.Answer, nil
}

// disks asks for the disks of all instances, some at a time, and returns the answers by name of the instance. After a failure the
// answers are not complete.
func (r *round) disks(instances json.RawMessage) (map[string]json.RawMessage, error) {
	names, err := core.InstanceNames(instances)
	if err != nil {
		return nil, err
	}
	disks := map[string]json.RawMessage{}
	var failure error
	var asking sync.WaitGroup
	slots := make(chan struct{}, instancesAtATime)
	var mu sync.Mutex
	for _, name := range names {
		slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-slots }()
			argument, err := json.Marshal(name)
			var answer json.RawMessage
			if err == nil {
				answer, err = r.query(confd.InstanceDisks, argument)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failure = err
			} else {
				disks[name] = answer
			}
		})
	}
	asking.Wait()
	return disks, failure
}
