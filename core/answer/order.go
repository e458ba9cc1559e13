package answer

// Order answers LockstepOrder: when jobs are expected to start and to end.
type Order struct {
	Estimate bool          `json:"estimate"` // always true
	Jobs     []Estimate    `json:"jobs"`
	Order    string        `json:"order"` // expected, weights or plain
	Preview  *OrderPreview `json:"preview,omitempty"`
}

// Estimate is when a job is expected to start and to end. What is not known is absent.
type Estimate struct {
	End       *TimeRange `json:"end,omitempty"`
	Estimate  bool       `json:"estimate"` // always true
	ID        int64      `json:"id"`
	LaterThan *Time      `json:"later_than_ts,omitempty"` // before the start
	Running   bool       `json:"running"`
	Start     *TimeRange `json:"start,omitempty"`
	// Unknown is why Start or End is absent, a forecast.Obstacle; empty: other jobs come first, and too many. UnknownOf is
	// the rule, operator, limit, owner, kind or order.
	Unknown   string `json:"unknown,omitempty"`
	UnknownOf string `json:"unknown_of,omitempty"`
	// WaitsFor is what the job waits for last before its start, a forecast.WaitKind, until the WaitsForJobs end.
	WaitsFor     string  `json:"waits_for,omitempty"`
	WaitsForJobs []int64 `json:"waits_for_jobs,omitempty"`
}

// TimeRange is two moments and the most likely one.
type TimeRange struct {
	From   Time `json:"from_ts"`
	Likely Time `json:"likely_ts"`
	To     Time `json:"to_ts"`
}

// OrderPreview is what would change if a job had high priority.
type OrderPreview struct {
	Changed []OrderChange `json:"changed"` // other jobs
	ID      int64         `json:"id"`
	Now     Estimate      `json:"now"`
	Then    Estimate      `json:"then"`
}

// OrderChange is the estimates of one job in both cases.
type OrderChange struct {
	Now  Estimate `json:"now"`
	Then Estimate `json:"then"`
}
