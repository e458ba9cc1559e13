package configstore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/core/paths"
)

// contentPaths are the files that make up one state only together: config.data and what lockstep keeps beside it.
func contentPaths() []string {
	return []string{paths.ConfigPath, paths.ConfigExtraPath, paths.TempResPath, paths.ConfigJournalPath}
}

// contents are the contents of contentPaths, in their order. An absent file is nil; an empty one is not.
type contents [4][]byte

// state is what contents say. isFilled: config.data lacks required values, which result has.
type state struct {
	result   journal.Recovered
	isFilled bool
}

// recover decodes the contents. discardRest is that of journal.Recover.
func (c contents) recover(discardRest bool) (s state, err error) {
	files := journal.Files{Extra: c[1], TempRes: c[2], Journal: c[3]}
	if c[0] != nil {
		if files.Config, s.isFilled, err = journal.DecodeConfig(c[0]); err != nil {
			return s, fmt.Errorf("parsing configuration: %s: %w", paths.ConfigPath, err)
		}
	}
	s.result, err = journal.Recover(files, discardRest)
	return s, err
}

// digest identifies the contents. An absent file and an empty one differ.
func (c contents) digest() (d [sha256.Size]byte) {
	h := sha256.New()
	for _, content := range c {
		length := int64(-1)
		if content != nil {
			length = int64(len(content))
		}
		_ = binary.Write(h, binary.BigEndian, length) // a hash returns no error
		h.Write(content)
	}
	h.Sum(d[:0])
	return d
}

// Prepared is the state that the files had before the actor started, already decoded. The first load takes it if the files have still the
// same contents, so that a daemon decodes a large configuration once. Any goroutine may use it.
type Prepared struct {
	digest [sha256.Size]byte
	size   int
	state  atomic.Pointer[state] // nil: a load has come
}

func newPrepared(c contents, s state) *Prepared {
	p := &Prepared{digest: c.digest(), size: len(c[0])}
	p.state.Store(&s)
	return p
}

// Size returns the length of config.data in bytes.
func (p *Prepared) Size() int { return p.size }

// Config returns the configuration of config.data; nil if there is none, or after the first load.
func (p *Prepared) Config() *model.Config {
	s := p.state.Load()
	if s == nil {
		return nil
	}
	return s.result.File.Config
}

// take returns the state, once, if it is that of contents. After the call p holds no state.
func (p *Prepared) take(c contents) *state {
	if p == nil {
		return nil
	}
	s := p.state.Swap(nil)
	if s == nil || p.digest != c.digest() {
		return nil
	}
	return s
}
