package peer

import (
	"time"

	"github.com/google/uuid"
)

// InitOptions are those of Init.
type InitOptions struct {
	Name    string // of the node, see CheckName
	Address string // by which other nodes will reach it, see CheckAddress
	Now     time.Time
}

// Init makes a cluster of which this node is the first member, and a join token for
// others, good for TokenLifetime. The daemon must not run. The error is a
// *AlreadyMemberError if the node belongs to a cluster already, and a *LeftoverError if it
// once did.
func Init(dataDir string, o InitOptions) (string, error) {
	identity := &Identity{Name: o.Name, UUID: uuid.NewString(), Address: o.Address, Voting: true, Founder: true, Peers: []string{}}
	if err := identity.validate(); err != nil {
		return "", err
	}
	if err := CheckDataDir(dataDir); err != nil {
		return "", err
	}
	if err := requireNoIdentity(dataDir); err != nil {
		return "", err
	}
	if err := makeDirectory(dataDir); err != nil {
		return "", err
	}
	ca, err := newAuthority(uuid.NewString(), o.Now)
	if err != nil {
		return "", err
	}
	key, err := newKey()
	if err != nil {
		return "", err
	}
	certificate, err := ca.issue(o.Name, &key.PublicKey, o.Now)
	if err != nil {
		return "", err
	}
	made := newToken(ca.certificate)
	files, err := nodeFiles(ca, key, encodeBlock(pemCertificate, certificate), []storedToken{made.hashed(o.Now.Add(TokenLifetime))}, identity)
	if err != nil {
		return "", err
	}
	return made.String(), replaceFiles(dataDir, files)
}
