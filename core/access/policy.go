package access

// Policy decides which role an identity has. It is not changed: another set of grants makes another Policy.
type Policy struct {
	DaemonUID int    // the user of the daemon
	SocketGID int    // the group of the sockets, whose members have the role submit; NoUID: there is none
	OwnerOnly bool   // the daemon is not root: other accounts than its own and root have no role
	Ganeti    bool   // of a Ganeti cluster: the modes of the sockets decide, and who reaches one is an admin
	Grants    Grants // given by an administrator
}

// Grants are roles by user and group, as data of the cluster. Only grants.go knows their form.
type Grants struct{}

// SubmitterOf is to whom the jobs of an identity belong, for the record of a job; nil: to the daemon's user.
func (p Policy) SubmitterOf(i Identity) []byte {
	if i.Daemon || i.Remote == "" && i.UID == p.DaemonUID {
		return nil
	}
	return i.Submitter().Encode()
}

// Role is the role of an identity.
func (p Policy) Role(i Identity) Role {
	switch {
	case i.Daemon:
		return Admin
	case i.Remote != "":
		return i.Role
	case i.UID == NoUID:
		return None
	case p.Ganeti, i.UID == 0, i.UID == p.DaemonUID:
		return Admin
	}
	return None
}
