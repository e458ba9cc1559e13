package access

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of the grants.
const (
	// GrantsMax bounds their number.
	GrantsMax = 1000
	// grantNameMax bounds the name of a user or group, in bytes.
	grantNameMax = 256
)

// Grants are roles by user and group, which an administrator has given. The zero Grants are none. They are not changed: Add and Remove
// make other ones.
type Grants struct{ list []Grant }

// Grant is a role of one user or group.
type Grant struct {
	Role Role   `json:"role"`
	Who  string `json:"who"` // as ParseWho returns it
}

// The kinds of users and groups, as the file and the command line name them.
const (
	userPrefix  = "user:"
	groupPrefix = "group:"
	uidPrefix   = "uid:"
	gidPrefix   = "gid:"
)

// ParseWho reads a user or group as people write them, alice, user:alice, group:ops, uid:1000 or gid:100, and returns the form of the file.
// Whether there is such a user or group is not asked: a node that is installed later may know it.
func ParseWho(text string) (string, error) {
	kind, name, found := strings.Cut(text, ":")
	if !found {
		kind, name = "user", text
	}
	switch kind + ":" {
	case userPrefix, groupPrefix:
		return kind + ":" + name, checkName(kind, name)
	case uidPrefix, gidPrefix:
		number, err := strconv.ParseUint(name, 10, 32)
		if err != nil || number == noID {
			return "", fmt.Errorf("%q is no number of a user or group", name)
		}
		return fmt.Sprintf("%s:%d", kind, number), nil
	}
	return "", fmt.Errorf("%q is no user or group: want alice, group:ops, uid:1000 or gid:100", text)
}

func checkName(kind, name string) error {
	bad := func(r rune) bool {
		return !unicode.IsGraphic(r) || unicode.IsSpace(r) || strings.ContainsRune(`:/,`, r)
	}
	switch _, err := strconv.Atoi(name); {
	case name == "" || len(name) > grantNameMax:
		return fmt.Errorf("the name of a %s has 1 to %d bytes", kind, grantNameMax)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, bad):
		return fmt.Errorf("%q is no name of a %s", name, kind)
	case err == nil:
		return fmt.Errorf("%s is a number: write uid:%s or gid:%s for the user or group with that number", name, name, name)
	}
	return nil
}

// DecodeGrants reads the content of access.json. No content is no grants. What is not valid in any part gives no role at all, as part of
// it may have been meant to be revoked.
func DecodeGrants(content []byte) (Grants, error) {
	if len(content) == 0 {
		return Grants{}, nil
	}
	var file struct {
		Grants []struct{ Role, Who string } `json:"grants"`
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields() // a later version may limit a grant by it
	if err := decoder.Decode(&file); err != nil {
		return Grants{}, fmt.Errorf("decode the grants: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Grants{}, errors.New("decode the grants: the file has more than one value")
	}
	var g Grants
	for _, row := range file.Grants {
		role, err := ParseRole(row.Role)
		if err != nil {
			return Grants{}, fmt.Errorf("decode the grants: %w", err)
		}
		next, _, err := g.Add(role, row.Who)
		if err != nil {
			return Grants{}, fmt.Errorf("decode the grants: %w", err)
		}
		g = next
	}
	return g, nil
}

// Encode is the content of access.json.
func (g Grants) Encode() []byte {
	file := struct {
		Grants []Grant `json:"grants"`
	}{g.List()}
	data, err := json.Marshal(file)
	if err != nil {
		panic(fmt.Errorf("grants cannot be encoded: %w", err)) // texts can be
	}
	return append(data, '\n')
}

// List is all grants, the highest role first. It is never nil.
func (g Grants) List() []Grant { return append([]Grant{}, g.list...) }

func compareGrants(a, b Grant) int {
	return cmp.Or(cmp.Compare(b.Role, a.Role), strings.Compare(a.Who, b.Who))
}

// Add returns the grants with one more. changed is false if there is this one.
func (g Grants) Add(role Role, who string) (next Grants, changed bool, err error) {
	who, err = ParseWho(who)
	if err != nil {
		return g, false, err
	}
	grant := Grant{Role: role, Who: who}
	at, found := slices.BinarySearchFunc(g.list, grant, compareGrants)
	switch {
	case found:
		return g, false, nil
	case len(g.list) >= GrantsMax:
		return g, false, fmt.Errorf("there are %d grants, as many as there may be: revoke some, or grant a role to a group", GrantsMax)
	}
	return Grants{slices.Insert(slices.Clone(g.list), at, grant)}, true, nil
}

// Remove returns the grants without one. changed is false if there is none such.
func (g Grants) Remove(role Role, who string) (next Grants, changed bool, err error) {
	who, err = ParseWho(who)
	if err != nil {
		return g, false, err
	}
	at, found := slices.BinarySearchFunc(g.list, Grant{Role: role, Who: who}, compareGrants)
	if !found {
		return g, false, nil
	}
	return Grants{slices.Delete(slices.Clone(g.list), at, at+1)}, true, nil
}

// best is the grant of the highest role that an identity has; the zero Grant: it has none.
func (g Grants) best(i Identity) Grant {
	for _, grant := range g.list {
		if grant.is(i) {
			return grant
		}
	}
	return Grant{}
}

// is reports whether a grant is to an identity. The names of the identity are those of the node whose client it is.
func (g Grant) is(i Identity) bool {
	kind, name, _ := strings.Cut(g.Who, ":")
	switch kind + ":" {
	case userPrefix:
		return i.Name == name
	case groupPrefix:
		return slices.Contains(i.Groups, name)
	case uidPrefix:
		return strconv.Itoa(i.UID) == name
	default:
		return slices.ContainsFunc(i.GIDs, func(gid int) bool { return strconv.Itoa(gid) == name })
	}
}
