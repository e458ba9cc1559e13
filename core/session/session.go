// Package session has the rules of the console's sessions and of its one-time login links: who has a session, until when, and
// what of it is on the disk. It is pure: the caller gives the time and unpredictable octets.
//
// A browser has the id of its session. Neither the id nor the token of a link is kept, only their SHA-256, so that a reader of
// the file gets no session. The table of sessions is a file that all nodes of a cluster share; links are in memory only.
package session

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"lockstep/core/access"
)

// Rules of sessions and links.
const (
	// Idle is how long an unused session is valid.
	Idle = 12 * time.Hour
	// noteUse is how old the noted use of a session is before a newer one is noted: each note is a write.
	noteUse = 10 * time.Minute
	// LinkLife is how long a link is valid.
	LinkLife = time.Minute
	// UserMax bounds the sessions of one user. A further one ends that which was unused for longest.
	UserMax = 50
	// Max bounds the sessions of all. A further one ends, of the user who has most, that which was unused for longest.
	Max = 2000
	// linksMax bounds the valid links.
	linksMax = 100
	// textMax bounds the texts of a session, in bytes.
	textMax = 300
	// groupsMax bounds the groups of an account.
	groupsMax = 1024
)

// HashOf is the form in which the id of a session or the token of a link is kept.
func HashOf(secret []byte) string {
	sum := sha256.Sum256(secret)
	return hex.EncodeToString(sum[:])
}

// isHash reports whether a text may be the result of HashOf.
func isHash(text string) bool {
	data, err := hex.DecodeString(text)
	return err == nil && len(data) == sha256.Size
}

// Session is a user's login to the console, as sessions.json has it.
type Session struct {
	Hash string `json:"hash"` // HashOf its id
	// User is who has logged in, as in reason trails: "user=deploy", or "uid=1000(alice)" by a link.
	User string `json:"user"`
	// Name is the name in the users file. Empty: the session was opened by a link.
	Name string `json:"name,omitempty"`
	// Account is the account that has asked for the link, with its groups then; nil: the session was opened by a password, or by a version
	// that did not note it. The session permits what the client socket permits to the account.
	Account *access.Identity `json:"account,omitempty"`
	// Proof binds the session to the password at the time of the login. Its form is the caller's.
	Proof  string `json:"proof,omitempty"`
	Opened int64  `json:"opened"` // seconds since 1970
	Used   int64  `json:"used"`   // last noted use, seconds since 1970
}

func (s Session) expired(now time.Time) bool { return now.Sub(time.Unix(s.Used, 0)) > Idle }

// Validate reports why a session cannot be opened.
func (s Session) Validate() error {
	if !isHash(s.Hash) {
		return fmt.Errorf("the hash of a session has %d hexadecimal digits", 2*sha256.Size)
	}
	if s.User == "" || len(s.User) > textMax || len(s.Name) > textMax || len(s.Proof) > textMax {
		return fmt.Errorf("user, name and proof of a session have at most %d bytes, and the user is not empty", textMax)
	}
	return nil
}

// ByLink is a session that a link opens for the client of the socket who has asked for the link. Groups beyond groupsMax are left out, with
// the roles that they would give.
func ByLink(user string, client access.Identity) Session {
	account := access.Identity{UID: client.UID, Name: client.Name, Login: client.Login, GIDs: client.GIDs[:min(len(client.GIDs), groupsMax)],
		Groups: client.Groups[:min(len(client.Groups), groupsMax)]}
	return Session{User: user, Account: &account}
}

// Table is the table of sessions. Each change returns a new table, so that a failed write leaves the former one in force.
type Table struct {
	sessions map[string]Session // by hash
}

// Decode reads the content of the file. No content is no session, and a session that is not valid is left out.
func Decode(content []byte) (Table, error) {
	t := Table{map[string]Session{}}
	if len(content) == 0 {
		return t, nil
	}
	var all struct {
		Sessions []Session `json:"sessions"`
	}
	if err := json.Unmarshal(content, &all); err != nil {
		return t, fmt.Errorf("decode the table of sessions: %w", err)
	}
	for _, s := range all.Sessions {
		if s.Validate() == nil {
			t.sessions[s.Hash] = s
		}
	}
	return t, nil
}

// Encode is the content of the file, sorted by hash.
func (t Table) Encode() []byte {
	all := struct {
		Sessions []Session `json:"sessions"`
	}{slices.SortedFunc(maps.Values(t.sessions), func(a, b Session) int { return cmp.Compare(a.Hash, b.Hash) })}
	data, err := json.Marshal(all)
	if err != nil {
		panic(fmt.Errorf("sessions cannot be encoded: %w", err)) // texts and numbers can be
	}
	return append(data, '\n')
}

// Len is the number of sessions.
func (t Table) Len() int { return len(t.sessions) }

// Open returns the table with one more session and without expired ones. For a user with more than UserMax sessions, and in a table
// with Max, those end that were unused for longest: of the same user, or of the user with the most.
func (t Table) Open(s Session, now time.Time) Table {
	s.Opened, s.Used = now.Unix(), now.Unix()
	next := t.valid(now)
	count := map[string]int{s.User: 1} // by user, with the new one
	for _, other := range next.sessions {
		count[other.User]++
	}
	for count[s.User] > UserMax || len(next.sessions) >= Max {
		most := s.User
		for user, n := range count {
			if count[s.User] <= UserMax && (n > count[most] || n == count[most] && user < most) {
				most = user
			}
		}
		if next.endOldest(most) {
			count[most]--
		} else {
			delete(count, most) // it is the new one; the others have one each
		}
	}
	next.sessions[s.Hash] = s
	return next
}

// endOldest removes the session of a user that was unused for longest. It reports false if there is none.
func (t Table) endOldest(user string) bool {
	var oldest *Session
	for _, s := range t.sessions {
		if s.User == user && (oldest == nil || cmp.Or(cmp.Compare(s.Used, oldest.Used), cmp.Compare(s.Hash, oldest.Hash)) < 0) {
			oldest = &s
		}
	}
	if oldest != nil {
		delete(t.sessions, oldest.Hash)
	}
	return oldest != nil
}

// Find returns a valid session. noted is the table to write in which this use is noted; changed is false if it need not be.
func (t Table) Find(hash string, now time.Time) (s Session, noted Table, changed, ok bool) {
	s, known := t.sessions[hash]
	if !known || s.expired(now) {
		return Session{}, t, false, false
	}
	if now.Sub(time.Unix(s.Used, 0)) < noteUse {
		return s, t, false, true
	}
	noted = t.valid(now)
	s.Used = now.Unix()
	noted.sessions[hash] = s
	return s, noted, true, true
}

// End returns the table without a session and without expired ones. ended is false, and the table unchanged, if there was no such
// session.
func (t Table) End(hash string, now time.Time) (next Table, ended bool) {
	if _, known := t.sessions[hash]; !known {
		return t, false
	}
	next = t.valid(now)
	delete(next.sessions, hash)
	return next, true
}

// valid returns a copy of the table without the sessions that have expired.
func (t Table) valid(now time.Time) Table {
	next := Table{make(map[string]Session, len(t.sessions)+1)}
	for hash, s := range t.sessions {
		if !s.expired(now) {
			next.sessions[hash] = s
		}
	}
	return next
}

// Links are the login links that are valid. The zero value has none.
type Links struct {
	links map[string]link // by HashOf the token
}

type link struct {
	opens Session // without a hash
	until time.Time
}

// Add makes a link that opens a session, and drops the links that have expired. If there are too many, the link that ends first gives way
// to it.
func (l *Links) Add(token []byte, opens Session, now time.Time) {
	l.sweep(now)
	if l.links == nil {
		l.links = map[string]link{}
	}
	for len(l.links) >= linksMax {
		var first string
		for hash, k := range l.links {
			if first == "" || k.until.Before(l.links[first].until) || k.until.Equal(l.links[first].until) && hash < first {
				first = hash
			}
		}
		delete(l.links, first)
	}
	l.links[HashOf(token)] = link{opens, now.Add(LinkLife)}
}

// Take returns the session that a valid link opens, without its hash, and consumes the link. ok is false for a link that does not exist, is
// used or has expired.
func (l *Links) Take(hash string, now time.Time) (opens Session, ok bool) {
	l.sweep(now)
	k, ok := l.links[hash]
	delete(l.links, hash)
	return k.opens, ok
}

func (l *Links) sweep(now time.Time) {
	maps.DeleteFunc(l.links, func(_ string, k link) bool { return !now.Before(k.until) })
}
