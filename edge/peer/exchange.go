package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// Paths of the requests between nodes, over HTTP/1.1.
const (
	joinPath   = "/v1/join"
	memberPath = "/v1/member"
	aboutPath  = "/v1/about"
	filesPath  = "/v1/files"
)

// Bounds of requests and answers that are one JSON value, in bytes.
const (
	joinBodyMax    = 64 << 10 // of a node that is not verified
	requestBodyMax = 1 << 20
	answerBodyMax  = 1 << 20
)

// About is what a node says of itself.
type About struct {
	Name    string `json:"name"`
	UUID    string `json:"uuid"`
	Master  string `json:"master"`  // name of the node that it takes for the master; empty: none
	Applied uint64 `json:"applied"` // index of the last entry of the log that is on its disk
	Leads   bool   `json:"leads"`   // it is the master
	Error   string `json:"error"`   // what is wrong with it; empty: nothing
	Voting  bool   `json:"voting"`  // it is to have a vote
}

// MembershipRequest is a node's request to be a member.
type MembershipRequest struct {
	Name    string `json:"name"`
	UUID    string `json:"uuid"`
	Address string `json:"address"`
	Voting  bool   `json:"voting"`
	Applied uint64 `json:"applied"` // see About
	Fresh   bool   `json:"fresh"`   // it has no log, even if it had one before
}

// AdmissionStatus is the result of a MembershipRequest.
type AdmissionStatus string

const (
	// StatusMember: the node is a member, with the requested address and vote.
	StatusMember AdmissionStatus = "member"
	// StatusWaiting: the node is not a member yet; it asks again later.
	StatusWaiting AdmissionStatus = "waiting"
	// StatusNotMaster: only the master can answer; the node asks the master.
	StatusNotMaster AdmissionStatus = "elsewhere"
)

// Admission answers a MembershipRequest.
type Admission struct {
	Status        AdmissionStatus `json:"status"`
	Master        string          `json:"master"` // empty: none is known
	MasterAddress string          `json:"master_address"`
}

// FileDigest is one of the files that all nodes have.
type FileDigest struct {
	Path   string `json:"path"` // below the data directory
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"` // bytes
}

// fileLine is a line of the answer of GET /v1/files. Error is in the last one only, if
// the list could not be made to its end.
type fileLine struct {
	FileDigest
	Error string `json:"error,omitempty"`
}

// errorBody is the body of answers that are errors.
type errorBody struct {
	Error string `json:"error"`
}

// RefusedError says that a node has answered, and does not do what it was asked.
type RefusedError struct {
	Address string
	Code    int // of HTTP
	Reason  string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the node at %s refuses: %s", e.Address, e.Reason)
}

// newHTTPClient makes a client that uses each connection once: a call is rare, and a
// connection that is kept may have been closed by the other side.
func newHTTPClient(dial func(ctx context.Context, address string) (net.Conn, error)) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialTLSContext:    func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address) },
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// send makes a request; the answer is one that is no error, or 421.
func send(ctx context.Context, client *http.Client, method, address, path string, body any) (*http.Response, error) {
	if err := CheckAddress(address); err != nil {
		return nil, err
	}
	var encoded io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		encoded = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, "https://"+address+path, encoded)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, withoutURL(err, address, path)
	}
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusMisdirectedRequest {
		return response, nil
	}
	defer response.Body.Close()
	refused := errorBody{}
	if decode(response.Body, &refused) != nil || refused.Error == "" {
		refused.Error = response.Status
	}
	return nil, &RefusedError{Address: address, Code: response.StatusCode, Reason: refused.Error}
}

// withoutURL has no URL in it: errors of dialing name the address already.
func withoutURL(err error, address, path string) error {
	var connecting *net.OpError
	if cause := errors.Unwrap(err); cause != nil {
		err = cause
	}
	if errors.As(err, &connecting) && connecting.Op == "dial" {
		return err
	}
	return fmt.Errorf("ask the node at %s for %s: %w", address, path, err)
}

// exchange makes a request whose answer is one JSON value, and returns its code.
func exchange(ctx context.Context, client *http.Client, method, address, path string, body, answer any) (int, error) {
	response, err := send(ctx, client, method, address, path, body)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if err := decode(response.Body, answer); err != nil {
		return 0, fmt.Errorf("the answer of the node at %s to %s: %w", address, path, err)
	}
	return response.StatusCode, nil
}

func decode(body io.Reader, value any) error {
	return json.NewDecoder(io.LimitReader(body, answerBodyMax)).Decode(value)
}
