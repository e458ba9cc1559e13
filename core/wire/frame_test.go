package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func readAll(t *testing.T, source io.Reader, limit int) ([]string, error) {
	t.Helper()
	reader := NewReader(source, limit)
	var frames []string
	for {
		frame, err := reader.ReadFrame()
		if err != nil {
			again, errAgain := reader.ReadFrame()
			if again != nil || !errors.Is(errAgain, err) {
				t.Errorf("after %v a further call gave %q, %v", err, again, errAgain)
			}
			return frames, err
		}
		frames = append(frames, string(frame))
	}
}

func TestReadFrame(t *testing.T) {
	tests := []struct {
		name   string
		stream string
		limit  int
		frames []string
		err    error
	}{
		{"nothing", "", 10, nil, io.EOF},
		{"one", "{}\x03", 10, []string{"{}"}, io.EOF},
		{"newline before the terminator belongs to the frame", "{}\n\x03", 10, []string{"{}\n"}, io.EOF},
		{"two in one write", "{1}\x03{2}\x03", 10, []string{"{1}", "{2}"}, io.EOF},
		{"empty frame", "\x03{}\x03", 10, []string{"", "{}"}, io.EOF},
		{"end inside a frame", "{}\x03{", 10, []string{"{}"}, io.ErrUnexpectedEOF},
		{"as large as allowed", "12345\x03", 5, []string{"12345"}, io.EOF},
		{"one byte too many", "123456\x03", 5, nil, &FrameTooLarge{Limit: 5}},
		{"too large, never ended", "1234567890", 5, nil, &FrameTooLarge{Limit: 5}},
		{"too large after a good one", "1\x03123456\x03", 5, []string{"1"}, &FrameTooLarge{Limit: 5}},
	}
	sources := map[string]func(io.Reader) io.Reader{
		"whole":        func(r io.Reader) io.Reader { return r },
		"byte by byte": iotest.OneByteReader,
		"half":         iotest.HalfReader,
		"data and EOF": iotest.DataErrReader,
	}
	for _, test := range tests {
		for how, wrap := range sources {
			t.Run(test.name+", "+how, func(t *testing.T) {
				frames, err := readAll(t, wrap(bytes.NewReader([]byte(test.stream))), test.limit)
				if !equal(frames, test.frames) {
					t.Errorf("frames %q, want %q", frames, test.frames)
				}
				if !reflect.DeepEqual(err, test.err) {
					t.Errorf("error %v, want %v", err, test.err)
				}
			})
		}
	}
}

func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// chunks is a source that gives its stream in pieces of prescribed sizes.
type chunks struct {
	stream []byte
	sizes  []int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.stream) == 0 {
		return 0, io.EOF
	}
	n := len(c.stream)
	if len(c.sizes) > 0 {
		n, c.sizes = min(n, c.sizes[0]), c.sizes[1:]
	}
	n = copy(p, c.stream[:n])
	c.stream = c.stream[n:]
	return n, nil
}

// For any sizes of frames and any pieces of the stream, the frames that are read are those that were written, and later
// reads do not change them.
func TestFramesSurviveAnyCutting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payload := rapid.Custom(func(t *rapid.T) []byte {
			size := rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(3000, 20000)).Draw(t, "size")
			return bytes.Repeat([]byte{rapid.Byte().Filter(func(b byte) bool { return b != Terminator }).Draw(t, "byte")}, size)
		})
		payloads := rapid.SliceOfN(payload, 0, 8).Draw(t, "payloads")
		var stream bytes.Buffer
		for _, payload := range payloads {
			if err := WriteFrame(&stream, payload); err != nil {
				t.Fatal(err)
			}
		}
		sizes := rapid.SliceOfN(rapid.IntRange(1, 9000), 0, 50).Draw(t, "cuts")
		reader := NewReader(&chunks{stream.Bytes(), sizes}, 20000)
		var frames [][]byte
		for range payloads {
			frame, err := reader.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			frames = append(frames, frame)
		}
		if _, err := reader.ReadFrame(); err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
		for i := range payloads {
			if !bytes.Equal(frames[i], payloads[i]) {
				t.Fatalf("frame %d differs", i)
			}
		}
	})
}

func TestReadFrameGoesOnAfterAPassingError(t *testing.T) {
	passed := errors.New("deadline passed")
	reader := NewReader(io.MultiReader(
		bytes.NewReader([]byte(`{"a":`)),
		&once{err: passed},
		bytes.NewReader([]byte("1}\x03")),
	), 100)
	if _, err := reader.ReadFrame(); err != passed {
		t.Fatalf("error %v, want the source's", err)
	}
	frame, err := reader.ReadFrame()
	if err != nil || string(frame) != `{"a":1}` {
		t.Fatalf("%q, %v", frame, err)
	}
}

// once fails one read, then returns io.EOF.
type once struct{ err error }

func (o *once) Read([]byte) (int, error) {
	if err := o.err; err != nil {
		o.err = nil
		return 0, err
	}
	return 0, io.EOF
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestReadFrameGivesUpOnASourceThatDoesNothing(t *testing.T) {
	if _, err := NewReader(idle{}, 10).ReadFrame(); err != io.ErrNoProgress {
		t.Fatal(err)
	}
}

// A connection that once carried a large frame must not keep its buffer.
func TestLargeFrameLeavesNoLargeBuffer(t *testing.T) {
	large := append(bytes.Repeat([]byte("x"), 1<<20), Terminator)
	reader := NewReader(bytes.NewReader(append(large, "{}\x03"...)), MaxFrame)
	if frame, err := reader.ReadFrame(); err != nil || len(frame) != 1<<20 {
		t.Fatal(len(frame), err)
	}
	if frame, err := reader.ReadFrame(); err != nil || string(frame) != "{}" {
		t.Fatalf("%q, %v", frame, err)
	}
	if len(reader.buffer) > 2*firstBuffer {
		t.Errorf("buffer of %d bytes is kept", len(reader.buffer))
	}
}

// writes counts calls, and fails when asked to.
type writes struct {
	bytes.Buffer
	calls int
}

func (w *writes) Write(p []byte) (int, error) {
	w.calls++
	return w.Buffer.Write(p)
}

func TestWriteFrame(t *testing.T) {
	var w writes
	payload := make([]byte, 2, 10)
	copy(payload, "{}")
	if err := WriteFrame(&w, payload); err != nil {
		t.Fatal(err)
	}
	if w.calls != 1 || w.String() != "{}\x03" {
		t.Errorf("%d writes of %q", w.calls, w.String())
	}
	if payload[:3][2] != 0 {
		t.Error("the caller's memory behind the payload was written to")
	}
	if err := WriteFrame(&w, []byte("a\x03b")); err != ErrTerminatorInside || w.calls != 1 {
		t.Errorf("error %v after %d writes", err, w.calls)
	}
}

func BenchmarkReadFrameLarge(b *testing.B) {
	frame := append(bytes.Repeat([]byte("x"), 16<<20), Terminator)
	b.SetBytes(int64(len(frame)))
	for b.Loop() {
		if _, err := NewReader(bytes.NewReader(frame), 16<<20).ReadFrame(); err != nil {
			b.Fatal(err)
		}
	}
}
