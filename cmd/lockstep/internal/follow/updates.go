package follow

import "context"

// Update is a notice for the user, a change, or the error that ends the updates.
type Update struct {
	Notice string
	Change
	Err error
}

// Updates follows in a goroutine, so that other events can be handled while a call waits. stop returns when the goroutine no longer uses
// the session, which is also the case after the final update. Notices of the session become updates, so that only one goroutine writes.
func (f *Follower) Updates(ctx context.Context) (updates <-chan Update, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	channel := make(chan Update)
	send := func(u Update) {
		select {
		case channel <- u:
		case <-ctx.Done():
		}
	}
	notice := f.Session.Notice
	if notice != nil {
		f.Session.Notice = func(text string) { send(Update{Notice: text}) }
	}
	go func() {
		defer close(channel)
		for ctx.Err() == nil {
			next, err := f.Next(ctx)
			if err != nil || next.Final {
				f.Session.Notice = notice
				send(Update{Change: next, Err: err})
				return
			}
			send(Update{Change: next})
		}
	}()
	return channel, func() {
		cancel()
		for range channel { // until it is closed
		}
	}
}
