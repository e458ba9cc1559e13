package inquirer

import "lockstep/core/inquiry"

// Announce asks whether the inquirer works. The answer is Started.
type Announce struct{}

// Started says that an incarnation of the inquirer works. It knows none of the questions to earlier ones. Clients get it at each start.
type Started struct{}

// Ask asks nodes. The answer is AskResult, at the latest after inquiry.AnswerMax. The questions are immutable.
type Ask struct {
	Request   uint64 // unique per sender
	Questions []inquiry.Question
}

// AskResult answers Ask, in the order of the questions. The answers are shared with others that have asked the same: they are immutable.
type AskResult struct {
	Request uint64
	Answers []inquiry.Answer
}

// GetRequest is the number of the request.
func (r *AskResult) GetRequest() uint64 { return r.Request }

// callEnded is the end of a call of a node daemon.
type callEnded struct {
	incarnation uint64
	call        uint64
	question    inquiry.Question
	answer      inquiry.Answer
	late        bool
}

// wake is the timer message at the time of Decision.Wake, at which core/inquiry decides again.
type wake struct{ incarnation uint64 }
