package noded

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"lockstep/core/rawjson"
)

// The encodings of file contents (noded.md 4).
const (
	plain      = 0 // text
	compressed = 1 // base64 of a zlib stream
)

const (
	// compressAbove is the length of the longest content that is sent as plain text, in bytes.
	compressAbove = 512
	// compressLevel is the level that Ganeti uses.
	compressLevel = 3
	// regular is the type of a regular file in st_mode.
	regular = 0o100000
)

// File asks a node daemon to replace one file of its node (upload_file_single).
type File struct {
	Path        string // absolute, one of the paths that the node daemon allows (noded.md 5)
	Content     []byte
	Mode        uint32 // permission bits
	User, Group string // names that the node daemon knows (noded.md 4)
}

// ConfigFile is config.data as the master candidates have it.
func ConfigFile(content []byte) File {
	return File{Path: "/var/lib/ganeti/config.data", Content: content, Mode: 0o640, User: "gnt-masterd", Group: "gnt-confd"}
}

// Request encodes the call of upload_file_single. The node daemon sets the times of the file itself.
func (f File) Request() Request {
	dst := rawjson.AppendQuoted([]byte{'['}, f.Path)
	dst = appendContent(append(dst, ','), f.Content)
	dst = strconv.AppendUint(append(dst, ','), uint64(regular|f.Mode), 10)
	dst = rawjson.AppendQuoted(append(dst, ','), f.User)
	dst = rawjson.AppendQuoted(append(dst, ','), f.Group)
	return Request{UploadFile, append(dst, ",null,null]"...)}
}

// DecodeFile decodes the body of upload_file_single, for fake node daemons. It ignores the times. The mode has no file type.
func DecodeFile(body []byte) (File, error) {
	args, err := arguments(body, 7)
	if err != nil {
		return File{}, err
	}
	var f File
	var mode uint32
	for i, into := range map[int]any{0: &f.Path, 2: &mode, 3: &f.User, 4: &f.Group} {
		if err := json.Unmarshal(args[i], into); err != nil {
			return File{}, fmt.Errorf("argument %d: %w", i, err)
		}
	}
	f.Mode = mode &^ regular
	f.Content, err = decodeContent(args[1])
	return f, err
}

func appendContent(dst, content []byte) []byte {
	if len(content) <= compressAbove && utf8.Valid(content) {
		dst = append(dst, "[0,"...)
		return append(rawjson.AppendQuoted(dst, string(content)), ']')
	}
	b := bytes.NewBuffer(append(dst, `[1,"`...))
	// A buffer accepts all writes, and the level is valid: no call fails.
	text := base64.NewEncoder(base64.StdEncoding, b)
	z, _ := zlib.NewWriterLevel(text, compressLevel)
	_, _ = z.Write(content)
	_ = z.Close()
	_ = text.Close()
	return append(b.Bytes(), `"]`...)
}

func decodeContent(raw []byte) ([]byte, error) {
	parts, err := list(raw)
	if err != nil || len(parts) != 2 {
		return nil, errors.New("the content is no pair")
	}
	text, err := rawjson.ReadText(parts[1])
	if err != nil {
		return nil, err
	}
	switch string(parts[0]) {
	case strconv.Itoa(plain):
		return []byte(text), nil
	case strconv.Itoa(compressed):
		stream, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, err
		}
		z, err := zlib.NewReader(bytes.NewReader(stream))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(z)
	}
	return nil, errors.New("Unknown data encoding")
}
