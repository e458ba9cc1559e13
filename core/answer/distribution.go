package answer

// Distribution answers LockstepDistribution: what the nodes of a Ganeti cluster have of the configuration. Outside of Ganeti mode
// the answer is null.
type Distribution struct {
	Serial int64              `json:"serial_no"` // of the newest configuration; 0: none was distributed yet
	Nodes  []DistributionNode `json:"nodes"`     // by uuid
}

// DistributionNode says what one node has of the configuration and of the queue, and why it has no more.
type DistributionNode struct {
	UUID    string           `json:"uuid"`
	Name    string           `json:"name"`
	Address string           `json:"address"`
	Role    string           `json:"role"`   // master, candidate, regular, drained or offline
	Config  *DistributedFile `json:"config"` // config.data; null: the node is not to get it
	Ssconf  *DistributedFile `json:"ssconf"` // the ssconf files; null: the node is not to get them
	Queue   *CopiedQueue     `json:"queue"`  // the files of the queue; null: the node is not to get them, or no queue runs
}

// CopiedQueue says what a master candidate lacks of the queue.
type CopiedQueue struct {
	Behind    int     `json:"behind"`    // files that the candidate may lack; a job counts as one
	Since     Time    `json:"since_ts"`  // of the oldest change that it may lack; null: it is current
	Comparing bool    `json:"comparing"` // the whole queue is being compared, or will be
	Sending   bool    `json:"sending"`   // a call is in progress
	Failures  int     `json:"failures"`  // calls that have failed since the last success
	Error     string  `json:"error"`     // of the last failed call; empty: the last call has succeeded
	Failed    Time    `json:"failed_ts"` // of the last failed call
	Retry     Time    `json:"retry_ts"`  // earliest time of the next call after a failure
	Copied    uint64  `json:"copied"`    // files sent since the start
	Median    float64 `json:"median_s"`  // seconds from a change to its copy, of the last 1000 copies
	Worst     float64 `json:"worst_s"`   // the longest of them
}

// DistributedFile is what a node has of config.data or of the ssconf files.
type DistributedFile struct {
	Serial   int64  `json:"serial_no"` // of the newest configuration that the node has acknowledged; 0: unknown since the start or a failure
	Behind   uint64 `json:"behind"`    // number of newer configurations; 0: the node is current
	Sending  bool   `json:"sending"`   // a call is in progress
	Failures int    `json:"failures"`  // calls that have failed since the last success
	Error    string `json:"error"`     // of the last failed call; empty: the last call has succeeded
	Failed   Time   `json:"failed_ts"` // of the last failed call
	Retry    Time   `json:"retry_ts"`  // earliest time of the next call after a failure
}
