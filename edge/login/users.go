package login

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // Ganeti's file format has it
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strings"

	"lockstep/core/access"
)

// Realm is the authentication realm; {ha1} passwords depend on it (queue.md 6.2).
const Realm = "Ganeti Remote API"

// optionRole is the role that an option gives; false: it gives none. The highest role of a user counts.
func optionRole(option string) (access.Role, bool) {
	switch option {
	case "read":
		return access.Read, true
	case "submit":
		return access.Submit, true
	case "operate":
		return access.Operate, true
	case "write":
		return access.Admin, true
	}
	return access.None, false
}

// optionAs begins the option that names the account as which the user's commands run.
const optionAs = "as="

// options names all options, for people.
const options = "read, submit, operate, write and as=ACCOUNT"

// User is a name of the users file with its password and what it may do.
type User struct {
	name   string
	secret []byte // the password, or its hash
	hashed bool
	role   access.Role
	as     string // account as which the user's commands run; "": none
}

// Users are the users who may log in, by name.
type Users map[string]User

// Mistake describes an invalid line of the users file.
type Mistake struct {
	Line int
	Text string // never contains a part of a password
}

func (m Mistake) String() string { return fmt.Sprintf("line %d: %s", m.Line, m.Text) }

// ParseUsers reads a users file. A line is `name password [option,...]`, in which the password is
// clear text, {cleartext} and clear text, or {ha1} and the MD5 of name:realm:password in
// hexadecimal digits. The user of an invalid line cannot log in. Only the last line of a
// name counts, so a later invalid line disables the user.
func ParseUsers(data []byte) (Users, []Mistake) {
	users := Users{}
	var mistakes []Mistake
	number := 0
	for line := range bytes.Lines(data) {
		number++
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			continue
		}
		u, problems := parseUser(text)
		if u.name != "" {
			if _, duplicate := users[u.name]; duplicate {
				problems = append(problems, fmt.Sprintf("user %q is there twice; this line counts", u.name))
			}
			users[u.name] = u
		}
		for _, problem := range problems {
			mistakes = append(mistakes, Mistake{number, problem})
		}
	}
	return users, mistakes
}

// parseUser reads one line of the users file, which has a name, a password and options. A user without a secret cannot log in. problems
// are for the log.
func parseUser(text string) (u User, problems []string) {
	fields := strings.Fields(text)
	if len(fields) < 2 || len(fields) > 3 {
		if strings.ContainsAny(fields[0], ":{") {
			return User{}, []string{"not a name, a password and options, with spaces between them"}
		}
		problem := fmt.Sprintf("not a name, a password and options, with spaces between them; %q cannot log in", fields[0])
		return User{name: fields[0]}, []string{problem}
	}
	u.name = fields[0]
	secret, hashed, problem := parsePassword(fields[1])
	u.secret, u.hashed = secret, hashed
	if problem != "" {
		problems = append(problems, fmt.Sprintf("%s; %q cannot log in", problem, u.name))
	}
	if len(fields) == 3 {
		for option := range strings.SplitSeq(fields[2], ",") {
			if problem := u.add(option); problem != "" {
				problems = append(problems, problem)
			}
		}
	}
	return u, problems
}

// add gives the user an option. A mistake about the account disables the user, whose commands could otherwise run as another one.
func (u *User) add(option string) (problem string) {
	role, isRole := optionRole(option)
	account, isAs := strings.CutPrefix(option, optionAs)
	switch {
	case isRole:
		u.role = max(u.role, role)
	case isAs && account != "" && (u.as == "" || u.as == account):
		u.as = account
	case isAs:
		u.secret = nil
		return fmt.Sprintf("as= needs the name of one account; %q cannot log in", u.name)
	case option != "":
		return fmt.Sprintf("there is no option %q; there are %s", option, options)
	}
	return ""
}

func parsePassword(text string) (secret []byte, hashed bool, problem string) {
	if text[0] != '{' {
		return []byte(text), false, ""
	}
	scheme, rest, closed := strings.Cut(text[1:], "}")
	switch {
	case !closed || rest == "":
		return nil, false, "the password is empty, or its scheme has no end"
	case strings.EqualFold(scheme, "cleartext"):
		return []byte(rest), false, ""
	case strings.EqualFold(scheme, "ha1"):
		hash, err := hex.DecodeString(rest)
		if err != nil || len(hash) != md5.Size {
			return nil, false, "an {ha1} password has 32 hexadecimal digits"
		}
		return hash, true, ""
	default:
		return nil, false, "the password has a scheme that is neither {cleartext} nor {ha1}"
	}
}

// Check returns the user with this name if the password is right. It takes the same time for a
// wrong password and an unknown user.
func (us Users) Check(name, password string) (User, bool) {
	u := us[name]
	return u, u.HasPassword(password)
}

// HasPassword reports whether the user can log in with a password. It takes the same time for each; the zero User has none.
func (u User) HasPassword(password string) bool {
	want, got := u.secret, []byte(password)
	if u.hashed {
		hash := md5.Sum([]byte(u.name + ":" + Realm + ":" + password)) //nolint:gosec // as above
		got = hash[:]
	}
	a, b := sha256.Sum256(want), sha256.Sum256(got) // hashes have the same length
	equal := subtle.ConstantTimeCompare(a[:], b[:]) == 1
	return equal && u.secret != nil
}

// Proof binds a session to the password: it changes with the password, and tells nothing of it without the key.
func (u User) Proof(key []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(u.secret)
	return hex.EncodeToString(mac.Sum(nil))
}

// Name is the name in the users file; "" of the zero User.
func (u User) Name() string { return u.name }

// Role is what the user may do; None: what those without a login may do where no login is required.
func (u User) Role() access.Role { return u.role }

// Identity is the user as the sender of requests that submit no job. Logins.Submitter is that of a submission.
func (u User) Identity() access.Identity {
	i := access.Unknown()
	i.Remote, i.Role = u.name, u.role
	return i
}
