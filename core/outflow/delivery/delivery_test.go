package delivery

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/outflow"
)

// command is what a command has written, by stream, with its log and its frames as a reader may find them.
type command struct {
	written [2]string
	log     []Entry
	logged  [2]int64 // up to where the log knows what was written
	frames  []outflow.Frame
	keeps   [2]int64 // how much the files have
}

// drawCommand draws a command whose log has dropped some entries. Its process may have died before it had saved the last ones.
func drawCommand(t *rapid.T) (c command) {
	var dropped, total job.Output
	add := func(kind string, payload json.RawMessage) {
		c.log = append(c.log, Entry{Type: kind, Payload: payload})
		c.logged = [2]int64{total.Stdout.Bytes, total.Stderr.Bytes}
	}
	note := func() {
		if dropped != (job.Output{}) {
			payload, _ := json.Marshal(job.MissingOutput{Missing: dropped, Written: total})
			add(job.LogMissing, payload)
			dropped = job.Output{}
		}
	}
	lines := rapid.IntRange(0, 30).Draw(t, "lines")
	saved := lines
	cut := rapid.Bool().Draw(t, "the process dies")
	if cut {
		saved = rapid.IntRange(0, lines).Draw(t, "saved lines")
	}
	place := func() outflow.Position {
		return outflow.Position{Stdout: int64(len(c.written[0])), Stderr: int64(len(c.written[1]))}
	}
	for i := range lines {
		s := rapid.IntRange(0, 1).Draw(t, "stream")
		line := strings.Repeat(string(rune('a'+i%26)), rapid.IntRange(0, 5).Draw(t, "length")) + "\n"
		c.frames = append(c.frames, outflow.Frame{At: place(), Stream: outflow.Stream(s), Output: []byte(line)})
		c.written[s] += line
		if i >= saved {
			continue
		}
		name := []string{"stdout", "stderr"}[s]
		drops := rapid.IntRange(0, 2).Draw(t, "kept in the log") == 0
		if drops {
			dropped = dropped.Plus(job.AmountOf(name, []byte(line)))
		} else {
			note()
		}
		total = total.Plus(job.AmountOf(name, []byte(line)))
		if !drops {
			add(job.EncodeOutput(name, []byte(line)))
		}
	}
	note()
	c.frames = append(c.frames, outflow.Frame{At: place()})
	if cut {
		add(job.LogCut, json.RawMessage("null"))
		c.frames = c.frames[:rapid.IntRange(0, lines).Draw(t, "sent frames")]
	}
	for s := range c.keeps {
		c.keeps[s] = min(int64(len(c.written[s])), int64(rapid.IntRange(0, 40).Draw(t, "kept")))
	}
	return c
}

// reader is a Target that knows the place of what it is shown.
type reader struct {
	t       *rapid.T
	command command
	place   [2]int64
	shown   [2]int64
	asked   []outflow.Part // of the files
	only    int            // the stream that it asks for; 2: both
}

func (r *reader) Output(s outflow.Stream, output []byte) {
	from := r.place[s]
	require.Equal(r.t, r.command.written[s][from:from+int64(len(output))], string(output))
	r.place[s] += int64(len(output))
	r.shown[s] += int64(len(output))
}

func (r *reader) Lacks(g Gap) {
	r.place[0] += g.Stdout.Bytes
	r.place[1] += g.Stderr.Bytes
}

func (r *reader) kept(part outflow.Part, take func([]byte) bool) int64 {
	if r.only != 2 && int(part.Stream) != r.only {
		return part.From
	}
	r.asked = append(r.asked, part)
	to := min(part.To, r.command.keeps[part.Stream])
	if to <= part.From {
		return part.From
	}
	take([]byte(r.command.written[part.Stream][part.From:to]))
	return to
}

func (r *reader) entries(d *Delivery, entries []Entry) {
	for _, e := range entries {
		loses, before := d.Loses(e), d.Account.Missing
		shows := d.Entry(r, e)
		require.Equal(r.t, loses, d.Account.Missing != before)
		if name, output, ok := job.DecodeOutput(e.Type, e.Payload); ok && shows {
			r.Output(outflow.Stream(slices.Index([]string{"stdout", "stderr"}, name)), output)
		}
	}
}

// Whatever the log has lost, wherever the process begins and ends to send, whatever is kept, and whether one stream is asked for or both:
// each byte is shown once and in order, or is said to be missing at its place.
func TestEachByteIsShownOnceOrMissing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCommand(t)
		r := &reader{t: t, command: c, only: rapid.IntRange(0, 2).Draw(t, "stream that is asked for")}
		d := Delivery{Kept: r.kept}
		known := rapid.IntRange(0, len(c.log)).Draw(t, "entries before the stream")
		held := rapid.IntRange(0, known).Draw(t, "shown before it begins")
		r.entries(&d, c.log[:held])
		least := c.logged // is shown or said to be missing
		if begin := rapid.IntRange(0, len(c.frames)).Draw(t, "begin"); begin < len(c.frames) {
			d.Begin(c.frames[begin].At)
			r.entries(&d, c.log[held:known])
			until := rapid.IntRange(begin, len(c.frames)).Draw(t, "end of the stream")
			for _, f := range c.frames[begin:until] {
				d.Frame(r, f)
				least[f.Stream] = max(least[f.Stream], f.At.Of(f.Stream)+int64(len(f.Output)))
			}
			r.entries(&d, c.log[known:])
			if until < len(c.frames) || !c.frames[until-1].Ends() {
				d.RestOfLog(r, slices.Values(c.log))
			}
		} else {
			r.entries(&d, c.log[held:])
		}
		require.Equal(t, r.place, [2]int64{d.Have.Stdout, d.Have.Stderr})
		require.Equal(t, r.shown, [2]int64{r.place[0] - d.Missing.Stdout.Bytes, r.place[1] - d.Missing.Stderr.Bytes})
		for s, written := range c.written {
			require.GreaterOrEqual(t, r.place[s], least[s])
			if c.keeps[s] == int64(len(written)) && (r.only == 2 || r.only == s) {
				require.Equal(t, int64(len(written)), r.shown[s], "the files have everything")
			}
		}
		r.askedInOrder()
	})
}

// askedInOrder checks that no part of a stream is asked for twice, and nothing after the end of the files.
func (r *reader) askedInOrder() {
	var end [2]int64
	for _, part := range r.asked {
		require.GreaterOrEqual(r.t, part.From, end[part.Stream])
		end[part.Stream] = part.To
		if part.To > r.command.keeps[part.Stream] {
			end[part.Stream] = math.MaxInt64
		}
	}
}

// tried is a job whose tries have written and kept to stdout what kept says, of which the log knows only so much.
type tried struct {
	t     *testing.T
	kept  []string
	begin []int64 // place of each try
	shown strings.Builder
	lacks int64
}

func (r *tried) Output(_ outflow.Stream, output []byte) { r.shown.Write(output) }
func (r *tried) Lacks(g Gap)                            { r.lacks += g.Stdout.Bytes }

func (r *tried) read(part outflow.Part, take func([]byte) bool) int64 {
	kept := r.kept[part.Tries]
	to := min(part.To, r.begin[part.Tries]+int64(len(kept)))
	if part.Stream != outflow.Stdout || to <= part.From {
		return part.From
	}
	take([]byte(kept[part.From-r.begin[part.Tries] : to-r.begin[part.Tries]]))
	return to
}

func (r *tried) entry(d *Delivery, kind string, payload any) {
	encoded, err := json.Marshal(payload)
	require.NoError(r.t, err)
	if d.Entry(r, Entry{Type: kind, Payload: encoded}) {
		if _, output, ok := job.DecodeOutput(kind, encoded); ok {
			r.shown.Write(output)
		}
	}
}

// lost is a log entry about bytes that the log has dropped.
func (r *tried) lost(d *Delivery, missing, written int64) {
	var m job.MissingOutput
	m.Missing.Stdout.Bytes, m.Written.Stdout.Bytes = missing, written
	r.entry(d, job.LogMissing, m)
}

// Each try has files of its own. What the log has dropped of a try, and what the process of a lost try had not saved there, come from
// these; a try whose files are gone is missing, and the next one is not.
func TestTheFilesOfEachTry(t *testing.T) {
	r := &tried{t: t, kept: []string{"1 a\n1 b\n", "2 a\n2 b\n2 more\n", "", "4 a\n4 b\n"}, begin: []int64{0, 8, 16, 20}}
	d := Delivery{Kept: r.read}
	r.lost(&d, 4, 4)
	r.entry(&d, job.LogStdout, "1 b")
	r.entry(&d, job.LogTry, job.EndedTry{Try: 1})
	require.Equal(t, r.kept[0], r.shown.String())
	r.entry(&d, job.LogStdout, "2 a")
	r.lost(&d, 4, 16)
	r.entry(&d, job.LogCut, nil)
	require.Equal(t, r.kept[0]+r.kept[1], r.shown.String(), "the log of the lost try ends before its files")
	r.entry(&d, job.LogTry, job.EndedTry{Try: 2})
	r.lost(&d, 4, 20)
	r.entry(&d, job.LogTry, job.EndedTry{Try: 3})
	require.EqualValues(t, 4, r.lacks)
	r.lost(&d, 4, 24)
	r.entry(&d, job.LogStdout, "4 b")
	require.Equal(t, strings.Join(r.kept, ""), r.shown.String())
	require.EqualValues(t, 4, r.lacks)
}

// The process of a lost try has sent a part of its output. The files have the rest, also what is not in the log.
func TestALostTryThatWasSent(t *testing.T) {
	r := &tried{t: t, kept: []string{"1 a\n1 b\n1 c\n", "2 a\n"}, begin: []int64{0, 4}}
	d := Delivery{Kept: r.read}
	d.Frame(r, outflow.Frame{Output: []byte("1 a\n1 ")})
	r.entry(&d, job.LogStdout, "1 a")
	r.entry(&d, job.LogCut, nil)
	r.entry(&d, job.LogTry, job.EndedTry{Try: 1})
	require.Equal(t, r.kept[0], r.shown.String())
	d.Frame(r, outflow.Frame{At: outflow.Position{Stdout: 4}, Output: []byte("2 a\n")})
	d.Frame(r, outflow.Frame{At: outflow.Position{Stdout: 8}})
	require.Equal(t, strings.Join(r.kept, ""), r.shown.String())
	require.Zero(t, r.lacks)
}
