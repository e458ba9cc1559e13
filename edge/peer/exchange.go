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
	// opcodesPath: the node reads its declared opcodes again.
	opcodesPath = "/v1/opcodes/reload"
)

// onlyParameter names a file of which filesPath is asked, besides others. A node of a former version ignores it and answers for
// all files.
const onlyParameter = "only"

// OnlyMax bounds the files of which one request asks, with their paths the bytes of its head.
const OnlyMax = 200

// Bounds of requests and answers that are one JSON value, in bytes.
const (
	joinBodyMax    = 64 << 10 // of a node without a certificate
	requestBodyMax = 1 << 20
	answerBodyMax  = 1 << 20
)

// About is what a node says of itself to other nodes: who it is, which master it knows, what it has applied, and whether it works.
type About struct {
	Name    string `json:"name"`
	UUID    string `json:"uuid"`
	Master  string `json:"master"`  // name of the current master as this node knows it; "": unknown
	Applied uint64 `json:"applied"` // index of the last entry of the log that is on this node's disk
	Leads   bool   `json:"leads"`   // this node is the master
	Error   string `json:"error"`   // why the node does not work; "": it works
	Voting  bool   `json:"voting"`  // the node is to have a vote
	Console string `json:"console"` // address of its console; "": it has none
	// Features are those that the node's version knows (replication.Features). An older version states none.
	Features []string `json:"features,omitempty"`
}

// MembershipRequest is a node's request to be a member.
type MembershipRequest struct {
	Name    string `json:"name"`
	UUID    string `json:"uuid"`
	Address string `json:"address"`
	Voting  bool   `json:"voting"`
	Applied uint64 `json:"applied"` // see About
	Fresh   bool   `json:"fresh"`   // the node has no log, or has lost it
	// HeartbeatMs is the shortest heartbeat timeout that the node knows, in milliseconds. 0: the node states none.
	HeartbeatMs int64 `json:"heartbeat_ms,omitempty"`
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

// Admission answers a MembershipRequest: whether the node is a member now, and whom to ask if not.
type Admission struct {
	Status        AdmissionStatus `json:"status"`
	Master        string          `json:"master"` // "": unknown
	MasterAddress string          `json:"master_address"`
}

// declaredOpcodes answers POST /v1/opcodes/reload.
type declaredOpcodes struct {
	Declared int `json:"declared"` // number of declared opcodes
}

// FileDigest is one of the files that all nodes have.
type FileDigest struct {
	Path   string `json:"path"` // below the data directory
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"` // bytes
}

// fileLine is a line of the answer of GET /v1/files. Error is set only in the last line, if the
// node could not complete the list.
type fileLine struct {
	FileDigest
	Error string `json:"error,omitempty"`
}

// errorBody is the body of an answer with an error code.
type errorBody struct {
	Error string `json:"error"`
}

// RefusedError is an answer of another node with an error code.
type RefusedError struct {
	Address string
	Code    int // HTTP status
	Reason  string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the node at %s refuses: %s", e.Address, e.Reason)
}

// newHTTPClient makes a client that uses each connection for one request. Requests are rare, and
// the other node may have closed an idle connection.
func newHTTPClient(dial func(ctx context.Context, address string) (net.Conn, error)) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialTLSContext:    func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address) },
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// send makes a request. It returns an answer with code 200 or 421, and a *RefusedError for any other code. The caller closes the body.
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

// withoutURL removes the URL from an error. Errors of dialing name the address already.
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

// exchange makes a request whose answer is one JSON value, decodes the answer and returns its
// code.
func exchange(ctx context.Context, client *http.Client, method, address, path string, body, answer any) (int, error) {
	response, err := send(ctx, client, method, address, path, body)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if err := decode(response.Body, answer); err != nil {
		return 0, fmt.Errorf("decode the answer of the node at %s to %s: %w", address, path, err)
	}
	return response.StatusCode, nil
}

func decode(body io.Reader, value any) error {
	return json.NewDecoder(io.LimitReader(body, answerBodyMax)).Decode(value)
}
