package queue

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

// subscribers knows which actors are sent the changes of which jobs.
type subscribers struct {
	// byJob has the subscribers of one job, in order of subscription. Only jobs of the
	// index that are not final are in it.
	byJob map[int64][]*actor.PID
	// jobOf is the job of a subscriber, by its id as an actor. Each has at most one.
	jobOf map[string]int64
	// all are the subscribers of all jobs, in order of subscription, each once.
	all []*actor.PID
	// progress are those of them who hear of the progress of commands, too. Others do work at each change that grows with the queue.
	progress []*actor.PID
	// notified is the last state of a job that was sent to the subscribers of all jobs.
	// A job that is not in it has not been sent.
	notified map[int64]notifiedState
}

// notifiedState is the part of a job whose change is sent to subscribers of all jobs.
type notifiedState struct {
	status, priority int32
	wait             messages.StartWait
}

func newSubscribers() *subscribers {
	return &subscribers{byJob: map[int64][]*actor.PID{}, jobOf: map[string]int64{}, notified: map[int64]notifiedState{}}
}

// subscribe subscribes an actor to a job. The actor must not be subscribed to one.
func (s *subscribers) subscribe(subscriber *actor.PID, id int64) {
	s.byJob[id] = append(s.byJob[id], subscriber)
	s.jobOf[subscriber.Id] = id
}

// unsubscribe ends the subscription of an actor to one job, if there is one.
func (s *subscribers) unsubscribe(subscriber *actor.PID) {
	id, known := s.jobOf[subscriber.Id]
	if !known {
		return
	}
	delete(s.jobOf, subscriber.Id)
	if s.byJob[id] = slices.DeleteFunc(s.byJob[id], subscriber.Equal); len(s.byJob[id]) == 0 {
		delete(s.byJob, id)
	}
}

// subscribeAll subscribes an actor to all jobs, and to their progress if m says so. It returns false if it is subscribed already.
func (s *subscribers) subscribeAll(subscriber *actor.PID, m *messages.SubscribeAllJobs) bool {
	if slices.ContainsFunc(s.all, subscriber.Equal) {
		return false
	}
	s.all = append(s.all, subscriber)
	if m.Progress {
		s.progress = append(s.progress, subscriber)
	}
	return true
}

// terminated ends all subscriptions of an actor.
func (s *subscribers) terminated(subscriber *actor.PID) {
	s.unsubscribe(subscriber)
	s.all = slices.DeleteFunc(s.all, subscriber.Equal)
	s.progress = slices.DeleteFunc(s.progress, subscriber.Equal)
}

// ended ends all subscriptions to a job that has ended.
func (s *subscribers) ended(id int64) {
	for _, subscriber := range s.byJob[id] {
		delete(s.jobOf, subscriber.Id)
	}
	delete(s.byJob, id)
}

// forget drops a job that leaves the index.
func (s *subscribers) forget(id int64) { delete(s.notified, id) }

// news returns the jobs of which the subscribers of all jobs must be sent a new state.
// New log lines and the progress of a job are no such state.
func (s *subscribers) news(infos ...*messages.JobInfo) []*messages.JobInfo {
	if len(s.all) == 0 {
		return nil
	}
	var news []*messages.JobInfo
	for _, info := range infos {
		now := notifiedState{status: info.Status, priority: info.Priority, wait: info.Wait}
		if last, known := s.notified[info.Id]; !known || last != now {
			s.notified[info.Id] = now
			news = append(news, info)
		}
	}
	return news
}
