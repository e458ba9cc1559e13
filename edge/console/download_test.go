package console

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/budget"
	"lockstep/core/outflow"
	"lockstep/edge/outputs/end"
)

// keeps answers for kept output with the part that there is of a stream.
func keeps(t *testing.T, output string) func(budget.Client, end.Hello) (*os.File, error) {
	return func(_ budget.Client, h end.Hello) (*os.File, error) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		from, to := min(h.Kept.From, int64(len(output))), min(h.Kept.To, int64(len(output)))
		f := outflow.Frame{At: outflow.Position{Stdout: from}, Output: []byte(output[from:to])}
		ends := outflow.Frame{At: outflow.Position{Stdout: to}}
		if !f.Ends() {
			_, err = w.Write(append(f.AppendHeader(nil), f.Output...))
			require.NoError(t, err)
		}
		_, err = w.Write(ends.AppendHeader(nil))
		require.NoError(t, err)
		return r, w.Close()
	}
}

// A download has the kept output in the places where the log has dropped some. One that breaks off does not look like a whole one.
func TestADownloadHasTheKeptOutput(t *testing.T) {
	a := newAudited(t)
	setLog := func(first string) {
		written := map[string]any{"stdout": map[string]any{"lines": 3, "bytes": len(first) + 13}}
		log := []any{
			[]any{1, []int{1, 1}, "stdout", first},
			[]any{2, []int{1, 1}, "output-missing", map[string]any{"written": written}},
			[]any{3, []int{1, 1}, "stdout", "last"},
		}
		a.setQueue(fixedAnswers{"QueryJobs": func(args ...any) any {
			if slices.Equal(args[1].([]string), []string{"opresult"}) {
				kept := map[string]any{"stdout": map[string]any{"bytes": len(first) + 100}}
				return []any{[]any{[]any{map[string]any{"kept": kept}}}}
			}
			return []any{[]any{"success", []any{log}}}
		}})
	}
	setLog("first")
	server := httptest.NewServer(a.Console)
	t.Cleanup(server.Close)
	get := func() (header http.Header, body string, err error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/ui/jobs/7/log?stream=stdout", nil)
		require.NoError(t, err)
		r.AddCookie(a.session())
		response, err := server.Client().Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
		all, err := io.ReadAll(response.Body)
		return response.Header, string(all), err
	}
	for _, c := range []struct{ kept, body, missing string }{
		{"FIRST\nsecond\nthird\nLAST\n", "first\nsecond\nthirdlast\n", "0"},
		{"FIRST\nsecond\n", "first\nsecond\nlast\n", "5"},
		{"", "first\nlast\n", "12"},
	} {
		a.config.Output = keeps(t, c.kept)
		header, body, err := get()
		require.NoError(t, err)
		require.Equal(t, c.body, body)
		require.Equal(t, c.missing, header.Get("Lockstep-Dropped-Bytes"))
	}
	long := strings.Repeat("x", 2*outflow.FrameMax)
	setLog(long)
	asked := 0
	a.config.Output = func(client budget.Client, h end.Hello) (*os.File, error) {
		if asked++; asked > 1 { // the files are removed during the download
			return nil, os.ErrNotExist
		}
		return keeps(t, long+"\nsecond\nthird\nLAST\n")(client, h)
	}
	_, _, err := get()
	require.Error(t, err)
}
