package confd

import (
	"fmt"
	"strconv"
	"time"

	"lockstep/core/rawjson"
)

// Responder makes the answer to each datagram that reaches the ConfD server. It keeps buffers between calls and belongs to one goroutine.
type Responder struct {
	// Admit reports whether a signed request is to be answered; nil: each one is.
	Admit func(Digest) bool

	keys     *Keys
	signers  []*signer // of keys
	envelope envelopeReader
	answer   builder
	msg      []byte
}

// Answer appends the answer to a datagram to dst. For an outcome that is silence it returns dst unchanged. s is the configuration,
// nil if there is none yet.
func (r *Responder) Answer(dst, packet []byte, now time.Time, keys *Keys, s *Snapshot) ([]byte, Outcome) {
	if keys.IsEmpty() {
		return dst, DroppedNoKey
	}
	r.use(keys)
	e, valid := r.envelope.open(packet)
	if !valid {
		return dst, DroppedPacket
	}
	seconds, valid := saltTime(e.salt)
	if !valid {
		return dst, DroppedPacket
	}
	by := r.signerOf(&e)
	if by == nil {
		return dst, DroppedSignature
	}
	if skew := now.Unix() - seconds; skew > ClockSkewMax || skew < -ClockSkewMax {
		return dst, DroppedClock
	}
	q, valid := parseRequest(e.msg)
	if !valid {
		return dst, DroppedRequest
	}
	if r.Admit != nil && !r.Admit(digestOf(e.salt, e.msg)) {
		return dst, DroppedReplay
	}
	return r.reply(dst, by, &q, s)
}

// use makes a signer for each valid key, unless the keys are those of the last call.
func (r *Responder) use(keys *Keys) {
	if r.keys == keys {
		return
	}
	r.keys, r.signers = keys, nil
	for _, key := range keys.valid {
		r.signers = append(r.signers, newSigner(key))
	}
}

// signerOf returns the key that a request is signed with, nil if it is none of the valid ones. The answer is signed with the same key.
func (r *Responder) signerOf(e *envelope) *signer {
	for _, s := range r.signers {
		if s.matches(e.salt, e.msg, e.signature) {
			return s
		}
	}
	return nil
}

// saltDigitsMax is the number of digits of the longest time that is read.
const saltDigitsMax = 18

// saltTime reads the salt of a request: seconds since 1970 in decimal digits and nothing else. valid is false for any other salt.
func saltTime(salt []byte) (seconds int64, valid bool) {
	if len(salt) == 0 || len(salt) > saltDigitsMax {
		return 0, false
	}
	for _, c := range salt {
		if c < '0' || c > '9' {
			return 0, false
		}
		seconds = 10*seconds + int64(c-'0')
	}
	return seconds, true
}

// reply appends the signed datagram that answers a request. An answer that is too large for a datagram is replaced by an error that says
// so.
func (r *Responder) reply(dst []byte, by *signer, q *request, s *Snapshot) ([]byte, Outcome) {
	r.answer.reset()
	serial, refusal := s.answer(&r.answer, q)
	before := len(dst)
	if refusal == nil && !r.answer.overflows() {
		r.setMsg(StatusOK, r.answer.text, serial)
		dst = appendReply(dst, by, r.msg, q.salt)
		if len(dst)-before <= DatagramMax {
			return dst, Served
		}
		dst, refusal = dst[:before], tooLarge(len(dst)-before)
	} else if refusal == nil {
		refusal = tooLarge(r.answer.quoted)
	}
	r.setMsg(StatusError, refusal.json(), 0)
	if dst = appendReply(dst, by, r.msg, q.salt); len(dst)-before > DatagramMax {
		return dst[:before], DroppedRequest // a salt that no answer has room for
	}
	return dst, Refused
}

func tooLarge(size int) *refusal {
	return &refusal{text: fmt.Sprintf("answer too large (%d bytes, limit %d)", size, DatagramMax)}
}

func (r *Responder) setMsg(status int, answer []byte, serial int64) {
	r.msg = append(r.msg[:0], `{"protocol":1,"status":`...)
	r.msg = strconv.AppendInt(r.msg, int64(status), 10)
	r.msg = append(r.msg, `,"answer":`...)
	r.msg = append(r.msg, answer...)
	r.msg = append(r.msg, `,"serial":`...)
	r.msg = strconv.AppendInt(r.msg, serial, 10)
	r.msg = append(r.msg, '}')
}

// refusal is why a well-formed request cannot be served: a text for people, or else a code.
type refusal struct {
	code int
	text string
}

func (f *refusal) json() []byte {
	if f.text != "" {
		return rawjson.Quote(f.text)
	}
	return strconv.AppendInt(nil, int64(f.code), 10)
}

// builder collects the JSON text of an answer. Of an answer that is too large for a datagram it only counts the bytes.
type builder struct {
	text   []byte
	quoted int // bytes of the text within a datagram; counted once the text overflows
}

func (b *builder) reset() { b.text, b.quoted = b.text[:0], 0 }

func (b *builder) overflows() bool { return b.quoted > 0 }

// add appends a part of the answer's text. A text that would be longer than DatagramMax stays incomplete: from then on only the length of
// its quoted form is counted.
func (b *builder) add(part []byte) {
	if !b.overflows() && len(b.text)+len(part) <= DatagramMax {
		b.text = append(b.text, part...)
		return
	}
	if !b.overflows() {
		b.quoted = quotedLen(b.text)
	}
	b.quoted += quotedLen(part)
}

func (b *builder) addString(part string) { b.add([]byte(part)) }

// addText appends a text as a JSON string.
func (b *builder) addText(text string) { b.add(rawjson.Quote(text)) }

func (b *builder) addInt(n int64) {
	var digits [20]byte
	b.add(strconv.AppendInt(digits[:0], n, 10))
}

// quotedLen returns the length in bytes of a text as a part of a JSON string in ASCII, without the quotes around the string.
func quotedLen(text []byte) int {
	n := len(text)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			n++
		case c >= 0xf0: // four bytes become two escapes of six
			n += 8 + 3
		case c >= 0xc0: // the bytes that continue the character are subtracted below
			n += 5
		case c >= 0x80:
			n--
		}
	}
	return n
}
