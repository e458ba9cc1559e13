package replicator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/replication"
	"lockstep/messages"
)

const (
	// compareEvery is the shortest pause between two comparisons in the background.
	compareEvery = 20 * time.Second
	// compareRest is how many times as long as a comparison the pause after it lasts, so that comparisons take at most one percent of a core.
	compareRest = 99
	// namedMax bounds the files that a log line names.
	namedMax = 5
)

// compareAfter lets the master compare the files of all nodes after a pause, until another node is the master.
func (r *replicator) compareAfter(ctx actor.Context, pause time.Duration) {
	term := r.mastership.term
	r.retryAfter(ctx, pause, func(ctx actor.Context) {
		switch {
		case !r.mastership.master || r.mastership.term != term:
		case r.config.Peers == nil || len(r.membership.others()) == 0:
			r.compareAfter(ctx, compareEvery)
		default:
			r.compare(ctx, peerQuery{ofMaster: true, requester: requester{request: term}})
		}
	})
}

// comparedByItself repairs what differs from the files of a majority, and reports what differs otherwise. It starts the timer of the next
// comparison. In another term it does nothing.
func (r *replicator) comparedByItself(ctx actor.Context, q peerQuery, m *messages.NodesCompared) {
	if !r.mastership.master || r.mastership.term != q.request {
		return
	}
	r.compareAfter(ctx, max(compareEvery, compareRest*time.Duration(m.TookUs)*time.Microsecond))
	if m.Failure != nil {
		r.config.Env.Log().WithField("err", m.Failure.Text).Warn("the files of the nodes cannot be compared")
		return
	}
	agreement := replication.Agree(r.membership.members, r.config.Name, m.Nodes)
	contested := r.confirm(agreement.Contested)
	former := r.compared
	r.compared = &messages.FilesCompared{
		AtUs:      r.config.Env.Clock().Now().UnixMicro(),
		Files:     m.Files,
		Repaired:  former.GetRepaired(),
		Contested: contested,
	}
	samePath := func(a, b *messages.ContestedFile) bool { return a.Path == b.Path }
	if len(contested) > 0 && !slices.EqualFunc(contested, former.GetContested(), samePath) {
		r.config.Env.Log().WithFields(logrus.Fields{"files": contestedText(contested)}).
			Error("files differ between the nodes, and the master does not agree with a majority; nothing was changed")
	}
	files := slices.DeleteFunc(agreement.Repair, r.isBusy)
	if len(files) == 0 {
		return
	}
	named := strings.Join(files[:min(len(files), namedMax)], ", ")
	r.config.Env.Log().WithFields(logrus.Fields{"files": named, "number": len(files)}).
		Warn("files of other nodes differ from those of a majority; they are replaced by the master's")
	number := int64(len(files))
	r.repair(ctx, files, func(actor.Context) {
		if r.mastership.term != q.request || r.compared == nil {
			return
		}
		c := r.compared
		// A sent message does not change.
		r.compared = &messages.FilesCompared{AtUs: c.AtUs, Files: c.Files, Repaired: c.Repaired + number, Contested: c.Contested}
	})
}

// confirm returns the contested files that were contested in the comparison before, too. In one comparison a file can
// differ because the other nodes are behind.
func (r *replicator) confirm(contested []*messages.ContestedFile) []*messages.ContestedFile {
	before := r.suspects
	r.suspects = map[string]bool{}
	for _, c := range contested {
		if !r.isBusy(c.Path) {
			r.suspects[c.Path] = true
		}
	}
	return slices.DeleteFunc(contested, func(c *messages.ContestedFile) bool { return !before[c.Path] || !r.suspects[c.Path] })
}

func contestedText(all []*messages.ContestedFile) string {
	var texts []string
	for _, c := range all[:min(len(all), namedMax)] {
		texts = append(texts, fmt.Sprintf("%s on %s", c.Path, strings.Join(c.Nodes, ", ")))
	}
	if more := len(all) - namedMax; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}
