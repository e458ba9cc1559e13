package peer

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// TokenLifetime is the default validity of a join token.
const TokenLifetime = 24 * time.Hour

// Bounds of the lifetime and number of tokens.
const (
	tokenLifetimeMin = time.Minute
	tokenLifetimeMax = 30 * 24 * time.Hour
	tokensMax        = 1000
)

const secretLen = 16 // bytes

// token is what a new node needs to join: the hash of the cluster's certificate, by which it
// recognises the cluster, and a secret that admits it.
type token struct {
	ca     [sha256.Size]byte // of the cluster's certificate
	secret [secretLen]byte
}

// newToken makes a token of a cluster. Only the hash of its secret is stored.
func newToken(ca *x509.Certificate) token {
	t := token{ca: sha256.Sum256(ca.Raw)}
	_, _ = rand.Read(t.secret[:]) // never fails
	return t
}

func (t token) String() string {
	return base64.RawURLEncoding.EncodeToString(append(t.ca[:], t.secret[:]...))
}

// TokenError says that a text is no join token. It does not quote the text, which may be a
// secret.
type TokenError struct{}

func (*TokenError) Error() string {
	return `that is not a join token; "lockstep node token" at a node of the cluster makes one`
}

func parseToken(text string) (t token, err error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(strings.TrimSpace(text))
	if err != nil || len(raw) != len(t.ca)+len(t.secret) {
		return token{}, &TokenError{}
	}
	copy(t.ca[:], raw)
	copy(t.secret[:], raw[len(t.ca):])
	return t, nil
}

// storedToken is a token in tokens.json. The secret cannot be derived from it.
type storedToken struct {
	Hash    string    `json:"sha256"` // of the secret, in hexadecimal
	Expires time.Time `json:"expires"`
}

func (t token) hashed(expires time.Time) storedToken {
	sum := sha256.Sum256(t.secret[:])
	return storedToken{hex.EncodeToString(sum[:]), expires.UTC()}
}

// NewToken makes a join token that this node accepts for a lifetime between a minute and 30 days,
// any number of times. Other nodes do not know the token. NewToken removes expired tokens.
func NewToken(dataDir string, lifetime time.Duration, now time.Time) (string, error) {
	if err := checkLifetime(lifetime); err != nil {
		return "", err
	}
	if err := CheckDataDir(dataDir); err != nil {
		return "", err
	}
	if _, err := LoadIdentity(dataDir); err != nil {
		return "", err
	}
	ca, err := readCertificate(pathOf(dataDir, caName))
	if err != nil {
		return "", err
	}
	unlock, err := lockTokens(dataDir)
	if err != nil {
		return "", err
	}
	defer unlock()
	tokens, err := readTokens(dataDir)
	if err != nil {
		return "", err
	}
	made := newToken(ca)
	valid := []storedToken{made.hashed(now.Add(lifetime))}
	for _, t := range tokens {
		if now.Before(t.Expires) {
			valid = append(valid, t)
		}
	}
	if len(valid) > tokensMax {
		return "", fmt.Errorf("there are %d join tokens that have not expired; use one of them, or remove %s, which makes all of them useless",
			len(valid)-1, pathOf(dataDir, tokensName))
	}
	f, err := tokensFile(valid)
	if err != nil {
		return "", err
	}
	return made.String(), replaceFiles(dataDir, []nodeFile{f})
}

func checkLifetime(lifetime time.Duration) error {
	if lifetime < tokenLifetimeMin || lifetime > tokenLifetimeMax {
		return fmt.Errorf("a join token is good for between %v and %v, not %v", tokenLifetimeMin, tokenLifetimeMax, lifetime)
	}
	return nil
}

func tokensFile(tokens []storedToken) (nodeFile, error) {
	encoded, err := json.MarshalIndent(tokens, "", "  ")
	return nodeFile{tokensName, append(encoded, '\n'), secretMode}, err
}

// lockTokens locks tokens.json against changes by other processes, and waits for the lock.
func lockTokens(dataDir string) (unlock func(), err error) {
	directory, err := os.Open(pathOf(dataDir, ""))
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(directory.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", directory.Name(), err), directory.Close())
	}
	return func() { directory.Close() }, nil
}

func readTokens(dataDir string) ([]storedToken, error) {
	path := pathOf(dataDir, tokensName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var tokens []storedToken
	if err := json.Unmarshal(data, &tokens); err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w; remove it, and make new join tokens", path, err)
	}
	return tokens, nil
}

// Reasons to refuse a token. Neither tells the client more than the token itself.
var (
	errTokenUnknown = errors.New(`this node does not know that join token: a token works only at the node that made it; ` +
		`join there, or make one here with "lockstep node token"`)
	errTokenExpired = errors.New(`that join token has expired; make a new one with "lockstep node token"`)
)

// checkSecret returns an error unless the secret is that of a valid token. The secret has 128 random bits, so it cannot be
// guessed however often a client tries; hashes are compared in constant time.
func checkSecret(dataDir string, secret []byte, now time.Time) error {
	tokens, err := readTokens(dataDir)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(secret)
	hash := hex.EncodeToString(sum[:])
	for _, t := range tokens {
		if subtle.ConstantTimeCompare([]byte(t.Hash), []byte(hash)) == 0 {
			continue
		}
		if !now.Before(t.Expires) {
			return errTokenExpired
		}
		return nil
	}
	return errTokenUnknown
}
