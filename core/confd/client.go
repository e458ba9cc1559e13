package confd

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"lockstep/core/rawjson"
)

// Query is a question to a configuration daemon. Argument is its query as JSON; empty: null.
type Query struct {
	Type     Type
	Argument json.RawMessage
}

// Reply is an answer to a Query (confd.md 2). Serial is the serial number of what the answer is about (confd.md 4).
type Reply struct {
	Protocol int             `json:"protocol"`
	Status   int             `json:"status"`
	Answer   json.RawMessage `json:"answer"`
	Serial   int64           `json:"serial"`
}

// Request returns the datagram of a query, signed as of now. The answer has the salt; each request has another one.
func (q Query) Request(key []byte, now time.Time, salt string) []byte {
	argument := q.Argument
	if len(argument) == 0 {
		argument = json.RawMessage("null")
	}
	msg := rawjson.AppendQuoted([]byte(`{"protocol":1,"type":`+strconv.Itoa(int(q.Type))+`,"query":`+string(argument)+`,"rsalt":`), salt)
	return sealed(key, string(msg)+"}", strconv.FormatInt(now.Unix(), 10))
}

// sealed returns the datagram of a message: signed with key, with the salt and the magic of ConfD.
func sealed(key []byte, msg, salt string) []byte {
	return appendReply(nil, newSigner(key), []byte(msg), salt)
}

// ErrNotSigned is the error for a datagram that is no answer, or whose signature is of another key.
var ErrNotSigned = errors.New("the datagram is no answer that is signed with the key")

// ParseReply checks the signature of a datagram and returns the answer in it with its salt. The error is ErrNotSigned for a datagram that
// is no signed message, or that of a message that is no JSON of an answer.
func ParseReply(key, packet []byte) (reply Reply, salt string, err error) {
	var r envelopeReader
	e, valid := r.open(packet)
	if !valid || !newSigner(key).matches(e.salt, e.msg, e.signature) {
		return Reply{}, "", ErrNotSigned
	}
	if err := json.Unmarshal(e.msg, &reply); err != nil {
		return Reply{}, "", err
	}
	return reply, string(e.salt), nil
}

// NewSalt makes a salt from random octets.
func NewSalt(random func(count int) []byte) string { return hex.EncodeToString(random(16)) }
