// Package configcheck is the actor that verifies the configuration in the background (config.md 6).
//
// It owns the findings of the last check. It gets each durable configuration (clusterconfig.Published), checks the first one at once and
// later ones in bounded time, and logs findings when their set has changed. It answers nothing, and no actor waits for it:
// "lockstep config check" computes the findings itself.
//
// Nothing survives a crash. The next incarnation asks for the configuration, and logs its findings again.
package configcheck

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kit"
	"lockstep/core/answer"
	"lockstep/core/config/model"
	"lockstep/core/config/view"
	"lockstep/messages"
)

const (
	// pause is the least time between two checks; after a long check it is pauseFactor times its duration, so that checks take at
	// most a tenth of one core.
	pause       = time.Second
	pauseFactor = 9
	// linesMax is the number of findings that one check logs; the others are counted.
	linesMax = 20
	// textMax is the number of characters of a finding that the log shows. A finding about one port may name all instances.
	textMax = 1000
)

// Config has the neighbours of the actor that verifies the configuration in the background.
type Config struct {
	Env           *kit.Env
	ClusterConfig *actor.PID
}

// Props describes the actor that verifies each durable configuration in the background and logs what is wrong with it.
func Props(c Config) *actor.Props {
	return kit.NumberedProps(c.Env, "configcheck", func(incarnation uint64) actor.Actor {
		return &configcheck{config: c, incarnation: incarnation, stopTimer: func() bool { return false }}
	})
}

// configcheck is the state between two checks: what was found, and which configuration waits for the end of the pause.
type configcheck struct {
	config      Config
	incarnation uint64
	checked     *model.Config // nil: none yet
	next        *model.Config // waits for the timer; nil: none waits
	findings    []string      // of checked, sorted
	isPausing   bool          // the timer is running
	stopTimer   func() bool
}

// pauseOver is the timer of the next check.
type pauseOver struct{ incarnation uint64 }

func (c *configcheck) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		ctx.Request(c.config.ClusterConfig, &messages.PublishConfig{})
	case *clusterconfig.ConfigPublished:
		c.published(ctx, m.Config)
	case *pauseOver:
		if m.incarnation == c.incarnation {
			c.isPausing = false
			c.proceed(ctx)
		}
	case *actor.Stopping, *actor.Restarting:
		c.stopTimer()
	default:
		kit.Unexpected(ctx)
	}
}

func (c *configcheck) published(ctx actor.Context, current *model.Config) {
	if c.next = current; current == c.checked {
		c.next = nil
	}
	c.proceed(ctx)
}

// proceed checks the newest configuration, unless the last check was too short a time ago.
func (c *configcheck) proceed(ctx actor.Context) {
	if c.next == nil || c.isPausing {
		return
	}
	clock := c.config.Env.Clock()
	began := clock.Now()
	c.checked, c.next = c.next, nil
	c.report(view.Check(c.checked))
	c.isPausing = true
	delay := max(pause, pauseFactor*clock.Now().Sub(began))
	c.stopTimer = kit.SendAfter(clock, ctx.ActorSystem(), delay, ctx.Self(), &pauseOver{c.incarnation})
}

// report logs the findings if their set has changed.
func (c *configcheck) report(check answer.ConfigCheck) {
	all := slices.Concat(check.Errors, check.Warnings)
	slices.Sort(all)
	was := c.findings
	if c.findings = all; slices.Equal(was, all) {
		return
	}
	log := c.config.Env.Log().WithField("serial", check.Serial)
	if len(all) == 0 {
		log.Info("configuration has no findings any longer")
		return
	}
	for i, text := range check.Errors[:min(len(check.Errors), linesMax)] {
		log.WithFields(logrus.Fields{"err": fmt.Sprintf("%.*s", textMax, text), "number": i + 1}).Error("configuration has an error")
	}
	for i, text := range check.Warnings[:min(len(check.Warnings), linesMax-min(len(check.Errors), linesMax))] {
		log.WithFields(logrus.Fields{"err": fmt.Sprintf("%.*s", textMax, text), "number": i + 1}).Warn("configuration has a warning")
	}
	log.WithFields(logrus.Fields{"errors": len(check.Errors), "warnings": len(check.Warnings)}).
		Warn("configuration has findings; lockstep config check shows all of them")
}
