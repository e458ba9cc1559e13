package wire

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// For any input, frames are bounded, and together they are a prefix of the input.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte("{}\x03[]\x03"))
	f.Add([]byte("\x03\x03x"))
	f.Add(bytes.Repeat([]byte("x"), 100))
	f.Fuzz(func(t *testing.T, input []byte) {
		const most = 64
		reader := NewReader(bytes.NewReader(input), most)
		var read []byte
		for {
			frame, err := reader.ReadFrame()
			var tooLarge *FrameTooLarge
			if errors.As(err, &tooLarge) {
				return
			}
			if err != nil {
				break
			}
			require.LessOrEqual(t, len(frame), most)
			read = append(append(read, frame...), 0x03)
		}
		require.True(t, bytes.HasPrefix(input, read))
	})
}

// A decoded request that is encoded decodes to the same request.
func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"method": "SubmitJob", "args": [[{"OP_ID": "OP_TEST_DELAY"}]], "version": 3000000}`))
	f.Add([]byte(`{"method": "Query", "args": ["job", ["id"], null]}`))
	f.Add([]byte(`{"method": 1, "args": {}}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, input []byte) {
		request, err := DecodeRequest(input)
		if err != nil {
			return
		}
		args := make([]any, len(request.Args))
		for i, arg := range request.Args {
			args[i] = arg
		}
		again, err := EncodeRequest(request.Method, args)
		require.NoError(t, err)
		decoded, err := DecodeRequest(again)
		require.NoError(t, err)
		require.Equal(t, request.Method, decoded.Method)
		require.Len(t, decoded.Args, len(request.Args))
	})
}
