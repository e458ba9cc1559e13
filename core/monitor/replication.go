package monitor

import (
	"time"
)

// ReplicationReport is what the collector "replication" reports: the members of the cluster, and how far each is behind.
type ReplicationReport struct {
	Status    Status   `json:"status"`
	Role      Role     `json:"role"`
	Term      uint64   `json:"term"`    // 0: unknown, or outside of a cluster
	Leader    *string  `json:"leader"`  // name; null: unknown, or secret
	Members   [][6]any `json:"members"` // name, address, reachable, match, lag in entries, lag in seconds; null: unknown
	Committed uint64   `json:"commit_index"`
	Applied   uint64   `json:"applied_index"`
	Commits   struct {
		P50 *float64 `json:"p50"`
		P99 *float64 `json:"p99"`
	} `json:"commit_seconds"` // of the last ten minutes; null: this node has proposed nothing
	StockNodes [][4]any `json:"stock_nodes"` // name, time of the last success, failures since, files behind
	// CommitTimes are all times of commits. The report has them as Commits.
	CommitTimes Histogram `json:"-"`
	// Lags are the lags of the members in entries by name, as far as they are known.
	Lags map[string]uint64 `json:"-"`
}

// View is what this node's replicator knows of the cluster: members, leader, and its own role.
type View struct {
	Role    Role
	Term    uint64 // of the leadership of this node; 0: it does not lead
	Leader  string // name; "": unknown
	Applied uint64 // index of the last entry on this node's disk
	Failure string // why the disk refuses entries; "": it does not
	Members []Member
}

// Member is a node of the cluster: its name, its address and whether it votes.
type Member struct {
	Name, Address string
	Voter         bool
}

// MemberState is the state that a member has reported.
type MemberState struct {
	Name    string
	Answers bool
	Applied uint64
}

// StockNode is a node whose files are written by its node daemon.
type StockNode struct {
	Name        string
	LastSuccess time.Time // zero: unknown
	Failures    int       // since the last success
	Behind      int       // number of kinds of files that are not current
}

// lagLimit is the lag beyond which a member is behind: in entries and in time.
const (
	lagLimitEntries = 1000
	lagLimit        = 10 * time.Second
)

// Cluster makes reports about replication from what the replicator and the distributor publish.
type Cluster struct {
	view            View
	term, committed uint64 // as the log says; 0: unknown
	states          map[string]MemberState
	asked           bool // states are those of the present leadership
	current         map[string]time.Time
	stock           []StockNode
	recent          recent
	commits         Histogram
}

// NewCluster returns the tracker of a node outside of a cluster; the first View says otherwise.
func NewCluster() *Cluster {
	return &Cluster{
		view:    View{Role: Alone},
		states:  map[string]MemberState{},
		current: map[string]time.Time{},
		commits: newHistogram(commitBounds),
	}
}

// Role is the role of this node.
func (c *Cluster) Role() Role { return c.view.Role }

// Changed takes the replicator's new view of the cluster. In a new role or term, what was known of the members is forgotten.
func (c *Cluster) Changed(v View) {
	if v.Role != c.view.Role || v.Term != c.view.Term {
		c.asked = false
		clear(c.states)
		clear(c.current)
	}
	c.view = v
}

// Committed records that an entry was committed now, and how long that took from its proposal.
func (c *Cluster) Committed(now time.Time, took time.Duration) {
	c.recent.add(now, took.Seconds())
	c.commits.Observe(took.Seconds())
}

// Read takes the term of the log, and the index of its last committed entry.
func (c *Cluster) Read(term, committed uint64) { c.term, c.committed = term, committed }

// Answered takes the states of all members, which they have reported when they were asked.
func (c *Cluster) Answered(now time.Time, states []MemberState) {
	c.asked = true
	clear(c.states)
	for _, s := range states {
		c.states[s.Name] = s
		if _, seen := c.current[s.Name]; !seen || s.Answers && s.Applied+lagLimitEntries >= c.view.Applied {
			c.current[s.Name] = now
		}
	}
}

// StockNodes takes the states of the nodes that have node daemons.
func (c *Cluster) StockNodes(nodes []StockNode) { c.stock = nodes }

// Report returns the report about replication as of now.
func (c *Cluster) Report(now time.Time) ReplicationReport {
	v := &c.view
	r := ReplicationReport{
		Role:        v.Role,
		Term:        max(v.Term, c.term),
		Committed:   max(v.Applied, c.committed),
		Applied:     v.Applied,
		Members:     [][6]any{},
		StockNodes:  [][4]any{},
		CommitTimes: c.commits.Clone(),
		Lags:        map[string]uint64{},
	}
	quantiles := c.recent.quantiles(now, 0.5, 0.99)
	r.Commits.P50, r.Commits.P99 = quantiles[0], quantiles[1]
	if v.Leader != "" {
		r.Leader = &v.Leader
	}
	for _, m := range v.Members {
		r.Members = append(r.Members, c.member(now, m, r.Lags))
	}
	for _, n := range c.stock {
		var last any
		if !n.LastSuccess.IsZero() {
			last = float64(n.LastSuccess.UnixMilli()) / 1e3
		}
		r.StockNodes = append(r.StockNodes, [4]any{n.Name, last, n.Failures, n.Behind})
	}
	r.Status = c.status(now)
	return r
}

func (c *Cluster) member(now time.Time, m Member, lags map[string]uint64) [6]any {
	row := [6]any{m.Name, m.Address, nil, nil, nil, nil}
	s, known := c.states[m.Name]
	if !known {
		return row
	}
	row[2] = s.Answers
	if s.Answers {
		lag := max(c.view.Applied, s.Applied) - s.Applied
		lags[m.Name] = lag
		row[3], row[4] = s.Applied, lag
	}
	row[5] = seconds(now, c.current[m.Name])
	return row
}

// status judges the view. Only the leader judges the members, because only it knows of them, and not before it has asked them.
func (c *Cluster) status(now time.Time) Status {
	var s Status
	v := &c.view
	if v.Failure != "" {
		s.worsen(NeedsYou, "the disk of this node refuses committed entries")
	}
	for _, n := range c.stock {
		if n.Behind > 0 && n.Failures > 0 {
			s.worsen(Repairs, "a node does not have the newest configuration: calls of its node daemon fail")
			break
		}
	}
	switch {
	case v.Role == Alone, v.Role == Follower:
		return s
	case v.Role == Candidate:
		s.worsen(NeedsYou, "no leader is known")
		return s
	case !c.asked:
		return s
	}
	voters, votersHere, lagging := 0, 0, false
	for _, m := range v.Members {
		state := c.states[m.Name]
		if m.Voter {
			voters++
		}
		if m.Voter && state.Answers {
			votersHere++
		}
		lagging = lagging || !state.Answers || now.Sub(c.current[m.Name]) > lagLimit
	}
	switch {
	case 2*votersHere <= voters:
		s.worsen(NeedsYou, "less than a majority of the voting nodes answers")
	case lagging:
		s.worsen(Repairs, "a node lags behind or does not answer; a majority stands")
	}
	return s
}

// Data encodes the report for clients. The part for clients without a login names no nodes.
func (r ReplicationReport) Data() Data {
	public := r
	public.Leader = nil
	public.Members = make([][6]any, len(r.Members))
	for i, m := range r.Members {
		m[0], m[1] = nil, nil
		public.Members[i] = m
	}
	public.StockNodes = make([][4]any, len(r.StockNodes))
	for i, n := range r.StockNodes {
		n[0] = nil
		public.StockNodes[i] = n
	}
	return Data{Full: r, Public: public, Code: r.Status.Code}
}
