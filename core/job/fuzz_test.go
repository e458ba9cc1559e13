package job

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Decode never panics. A file that it accepts is valid JSON, can be encoded, and decodes to the same job again.
func FuzzDecode(f *testing.F) {
	for _, data := range captured(f) {
		f.Add(data)
	}
	f.Add([]byte(`{"id":"7","ops":[{"input":"\ud800\/é","status":"queued","log":[[1,null,"\u00e4",[ ]]]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		original := bytes.Clone(data)
		j, err := Decode(data)
		require.Equal(t, original, data)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.True(t, json.Valid(data))
		encoded := Encode(j)
		again, err := Decode(encoded)
		require.NoError(t, err)
		require.Equal(t, string(encoded), string(Encode(again)))
		require.Equal(t, j.Status(), again.Status())
		require.Equal(t, j.Priority(), again.Priority())
		require.Equal(t, j.LastSerial(), again.LastSerial())
	})
}
