package access

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// NoUID is the uid of an identity without an account of the node.
const NoUID = -1

// Identity is who has sent a request, as the door knows it through which the request came. The master decides by it, also for the
// clients of other nodes. It never comes from the client. The zero Identity is root's account; Unknown is that of a client of which nothing
// is known.
type Identity struct {
	UID    int      `json:"uid"`              // of the process at the socket, or of the account of Remote; NoUID: there is none
	Name   string   `json:"name,omitempty"`   // of that account; "": it has none
	GIDs   []int    `json:"gids,omitempty"`   // the groups of the process
	Groups []string `json:"groups,omitempty"` // the names of these groups, as far as they have one
	Login  int      `json:"login"`            // the user who logged in on the machine, also after su; NoUID: unknown
	Remote string   `json:"remote,omitempty"` // a name of the users file, whose password a node has checked; "": a client of the socket
	Role   Role     `json:"role,omitempty"`   // what the users file permits to Remote
	Node   string   `json:"node,omitempty"`   // the other node whose client this is; "": this node
	// Program is the program of the process at the socket, "" if it is unknown or has ended.
	Program string `json:"program,omitempty"`
	// Daemon: the process is the daemon itself, which asks for a page of the console or another node, and has checked who may.
	Daemon bool `json:"daemon,omitempty"`
}

// Unknown is the identity of a client of which nothing is known. It has no role.
func Unknown() Identity { return Identity{UID: NoUID, Login: NoUID} }

// DaemonItself is the identity of the daemon of user uid where it makes a call for itself.
func DaemonItself(uid int) Identity { return Identity{UID: uid, Login: NoUID, Daemon: true} }

// Encode is the JSON of an identity.
func (i Identity) Encode() []byte {
	data, err := json.Marshal(i)
	if err != nil {
		panic(fmt.Errorf("encode an identity: %w", err)) // texts and numbers
	}
	return data
}

// DecodeForwarded reads the identity that another node gives the request of its client. Without one, from an older node, words are what
// that node says of the client: a number of an account is believed, without its groups, and of a remote user the role is unknown.
func DecodeForwarded(data []byte, words string) Identity {
	i := Unknown()
	if len(data) > 0 {
		if json.Unmarshal(data, &i) != nil {
			return Unknown()
		}
		return i
	}
	first, rest, _ := strings.Cut(words, ", ")
	number, name, _ := strings.Cut(strings.TrimPrefix(first, "uid="), "(")
	if uid, err := strconv.ParseUint(number, 10, 32); err == nil && strings.HasPrefix(first, "uid=") && uid != noID {
		i.UID, i.Name = int(uid), strings.TrimSuffix(name, ")")
	}
	_, i.Node, _ = strings.Cut(rest, "node=")
	return i
}

// IsUID reports whether a number may be the uid of an account.
func IsUID(uid int) bool { return uid >= 0 && uid < noID }

// noID is the number that stands for no user in the kernel: (uid_t)-1.
const noID = 1<<32 - 1

// Key names the user of an identity: two requests with one key are of one user. It is "uid=1000", "remote=deploy", or "" for Unknown.
func (i Identity) Key() string { return i.Submitter().Key() }

// String names the user for people: alice, uid 1000, deploy (remote API), or "an unknown user".
func (i Identity) String() string { return i.Submitter().String() }

// Submitter is the user that a job of this identity belongs to.
func (i Identity) Submitter() Submitter { return Submitter{UID: i.UID, Name: i.Name, Remote: i.Remote} }

// Submitter is the user to whom a job belongs, as the record of the job keeps it. A job of the daemon's user has none.
type Submitter struct {
	UID    int    `json:"uid"`              // of the account as which the job's commands run; NoUID: there is none
	Name   string `json:"name,omitempty"`   // of that account at the submission
	Remote string `json:"remote,omitempty"` // the name in the users file, of a user of the remote API
}

// Key is Identity.Key.
func (s Submitter) Key() string {
	switch {
	case s.Remote != "":
		return "remote=" + s.Remote
	case s.UID == NoUID:
		return ""
	default:
		return fmt.Sprintf("uid=%d", s.UID)
	}
}

// String names the user for people.
func (s Submitter) String() string {
	switch {
	case s.Remote != "":
		return s.Remote + " (remote API)"
	case s.Name != "":
		return s.Name
	case s.UID == NoUID:
		return "an unknown user"
	default:
		return fmt.Sprintf("uid %d", s.UID)
	}
}

// Encode is the JSON of a submitter.
func (s Submitter) Encode() []byte {
	data, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Errorf("encode a submitter: %w", err)) // texts and a number
	}
	return data
}

// DecodeSubmitter reads what Encode wrote. No data is the daemon's user, who is the submitter daemon.
func DecodeSubmitter(data []byte, daemon Submitter) (Submitter, error) {
	if len(data) == 0 {
		return daemon, nil
	}
	s := Submitter{UID: NoUID}
	if err := json.Unmarshal(data, &s); err != nil {
		return Submitter{UID: NoUID}, fmt.Errorf("decode a submitter: %w", err)
	}
	return s, nil
}
