package wire

// AppendResult begins the payload of a successful answer with a long result. The caller appends the result as JSON,
// then calls CloseResult.
func AppendResult(dst []byte) []byte { return append(dst, `{"success":true,"result":`...) }

// CloseResult ends the payload.
func CloseResult(dst []byte) []byte { return append(dst, '}') }
