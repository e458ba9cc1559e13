package messages

import (
	"fmt"

	"google.golang.org/protobuf/proto"
)

// Marshal encodes the entry for the consensus log. It panics if a path is not UTF-8.
func (x *LogEntry) Marshal() []byte {
	data, err := proto.Marshal(x)
	if err != nil {
		panic(fmt.Errorf("an entry of the log cannot be encoded: %w", err)) // a path that is not UTF-8
	}
	return data
}

// UnmarshalLogEntry is the inverse of Marshal. The error is about data that is no entry.
func UnmarshalLogEntry(data []byte) (*LogEntry, error) {
	var entry LogEntry
	if err := proto.Unmarshal(data, &entry); err != nil {
		return nil, fmt.Errorf("an entry of the log cannot be decoded: %w", err)
	}
	return &entry, nil
}
