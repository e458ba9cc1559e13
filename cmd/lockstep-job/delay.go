package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/core/jobproc"
	"lockstep/core/rawjson"
)

// testDelayParams is the parameters of OP_TEST_DELAY.
type testDelayParams struct {
	Duration      float64 `json:"duration"`
	Repeat        int     `json:"repeat"`
	Interruptible bool    `json:"interruptible"`
}

func (x *execution) delay() (op testDelayParams, refused *jobproc.Outcome) {
	if err := json.Unmarshal(x.input, &op); err != nil {
		o := failure("OpPrereqError", fmt.Sprintf("Parameters cannot be read: %v", err), "wrong_input")
		return op, &o
	}
	if op.Duration <= 0 {
		o := failure("OpPrereqError", "Duration must be greater than zero")
		return op, &o
	}
	return op, nil
}

// testDelay is OP_TEST_DELAY (queue.md 8.4) on this node: it waits for a time, once or several times. A kill ends it with a failure.
func (x *execution) testDelay() jobproc.Outcome {
	op, refused := x.delay()
	if refused != nil {
		return *refused
	}
	duration := time.Duration(min(op.Duration, jobproc.SecondsMax) * float64(time.Second))
	for i := range max(op.Repeat, 1) {
		if op.Repeat > 0 {
			x.logMessage("Test delay iteration %d/%d", i, op.Repeat-1)
		}
		if op.Interruptible {
			if interrupted, err := x.interruptibleDelay(duration); interrupted || err != nil {
				return delayEnded(err)
			}
			continue
		}
		select {
		case <-time.After(duration):
		case <-x.killed:
			return failure("OpExecError", jobproc.EndedOnRequest)
		}
	}
	return jobproc.Outcome{}
}

func delayEnded(err error) jobproc.Outcome {
	switch {
	case err == nil:
		return jobproc.Outcome{}
	case errors.Is(err, errKilled):
		return failure("OpExecError", jobproc.EndedOnRequest)
	default:
		return failure("OpExecError", "The delay cannot be made interruptible: "+err.Error())
	}
}

// interruptibleDelay waits for d, or until a client interrupts: the client connects to a socket, and ends all delays when it
// sends one byte or disconnects.
func (x *execution) interruptibleDelay(d time.Duration) (interrupted bool, err error) {
	socket, err := newTestSocket()
	if err != nil {
		return false, err
	}
	payload, err := json.Marshal([]string{socket.path})
	if err != nil {
		socket.remove()
		return false, err
	}
	began := time.Now()
	x.log("delay-test", payload)
	fd, err := socket.acceptClient(d, x.killed)
	socket.remove()
	if err != nil {
		return false, ignoreTimeout(err)
	}
	defer func() { _ = unix.Close(fd) }()
	remaining := d - time.Since(began)
	x.log("message", rawjson.Quote(fmt.Sprintf(" - INFO: Received connection, %.2f seconds to go", remaining.Seconds())))
	if err := awaitReadable(fd, remaining, x.killed); err != nil {
		return false, ignoreTimeout(err)
	}
	x.log("message", rawjson.Quote(fmt.Sprintf(" - INFO: Interrupted after %.2f seconds", time.Since(began).Seconds())))
	return true, nil
}

// ignoreTimeout drops a time-out: the delay has lasted its full time.
func ignoreTimeout(err error) error {
	if errors.Is(err, errTimeout) {
		return nil
	}
	return err
}
