package answer

// WhoAmI answers LockstepWhoAmI: who the client is to the daemon, and what it may do.
type WhoAmI struct {
	User   string   `json:"user"`           // alice, uid 1000, or deploy (remote API)
	UID    *int     `json:"uid"`            // null: the user has no account
	Groups []string `json:"groups"`         // of the client's process
	Role   string   `json:"role"`           // none, read, submit, operate or admin
	Why    string   `json:"why"`            // where the role comes from, in words
	Node   string   `json:"node,omitempty"` // the node whose client it is; empty: the master's
}

// Grants answers LockstepListGrants: the roles that administrators have given, the highest role first.
type Grants struct {
	Grants []Grant `json:"grants"`
}

// Grant is the role of one user or group.
type Grant struct {
	Role string `json:"role"`
	Who  string `json:"who"` // "user:alice", "group:ops", "uid:1000" or "gid:100"
}
