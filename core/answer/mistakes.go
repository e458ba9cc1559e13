package answer

import (
	"encoding/json"
	"fmt"
)

// Mistake is why a job of a submission is refused.
type Mistake struct {
	Job       int    `json:"job"`                 // 1 is the first
	Opcode    int    `json:"opcode,omitempty"`    // of the job, 1 is the first; 0: the mistake is in the whole job
	Parameter string `json:"parameter,omitempty"` // of the opcode; "": in none, or in several
	Text      string `json:"text"`
}

// MistakesMax is the number of mistakes that an answer has at most.
const MistakesMax = 100

// EncodeMistakes returns the third argument of an error of LockstepSubmitJobs: the mistakes, in the order of the jobs.
func EncodeMistakes(mistakes []Mistake) json.RawMessage {
	data, err := json.Marshal(mistakes)
	if err != nil {
		panic(fmt.Errorf("mistakes cannot be encoded: %w", err)) // texts and numbers can be
	}
	return data
}
