package access

import "slices"

// Policy decides which role an identity has. It is not changed: another set of grants makes another Policy.
type Policy struct {
	DaemonUID int // the user of the daemon
	SocketGID int // the group of the sockets, whose members have the role submit; NoUID: there is none
	// SocketGroup is the name of that group, by which members are known who use the socket of another node: there it may have another
	// number. "": it has no name.
	SocketGroup string
	OwnerOnly   bool   // the daemon is not root: other accounts than its own and root have no role
	Ganeti      bool   // of a Ganeti cluster: the modes of the sockets decide, and who reaches one is an admin
	Grants      Grants // given by an administrator
}

// isMember reports whether an identity is a member of the group of the sockets.
func (p Policy) isMember(i Identity) bool {
	if i.Node != "" && p.SocketGroup != "" {
		return slices.Contains(i.Groups, p.SocketGroup)
	}
	return p.SocketGID != NoUID && slices.Contains(i.GIDs, p.SocketGID)
}

// SubmitterOf is to whom the jobs of an identity belong, for the record of a job; nil: to the daemon's user. An administrator of the remote
// API without an account has the rights of the daemon's user, as whom these jobs run.
func (p Policy) SubmitterOf(i Identity) []byte {
	if i.Daemon || i.Remote == "" && i.UID == p.DaemonUID {
		return nil
	}
	if i.Remote != "" && i.UID == NoUID && p.Role(i) == Admin {
		i.UID = p.DaemonUID
	}
	return i.Submitter().Encode()
}

// Role is the role of an identity.
func (p Policy) Role(i Identity) Role {
	role, _ := p.Explain(i)
	return role
}

// Explain returns the role of an identity, and in words why it has it.
func (p Policy) Explain(i Identity) (role Role, why string) {
	switch {
	case i.Daemon:
		return Admin, "the daemon itself"
	case i.Remote != "":
		return i.Role, "the users file of the remote API"
	case i.UID == NoUID:
		return None, "nothing is known of the client"
	case p.Ganeti:
		return Admin, "a client of a socket of a Ganeti cluster"
	case i.UID == 0:
		return Admin, "root"
	case i.UID == p.DaemonUID:
		return Admin, "the daemon's user"
	case p.OwnerOnly:
		return None, "the daemon does not run as root, and admits its own user and root only"
	}
	why = "neither a grant nor the group of the socket"
	if p.isMember(i) {
		role, why = Submit, "the group of the socket"
	}
	if best := p.Grants.best(i); best.Role > role {
		return best.Role, "the grant to " + best.Who
	}
	return role, why
}
