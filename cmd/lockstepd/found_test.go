package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/wire"
	"lockstep/edge/luxiclient"
)

var foundQuestions = flag.Int("found.questions", 1500, "how many questions TestAJobIsFoundByEveryDoor asks")

// finder asks for jobs that are being archived, while the daemon is killed and started again.
type finder struct {
	*remote
	mu    sync.Mutex
	url   string
	jobs  []int64 // acknowledged, the newest at the end
	left  int     // questions
	lost  []string
	doors map[string]int
}

// take returns a job for the next question; 0: there are enough questions.
func (f *finder) take(rng *rand.Rand) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return 0
	}
	return f.jobs[max(0, len(f.jobs)-1-rng.IntN(8))]
}

// asked takes an answer. An error that does not speak about the job is no answer.
func (f *finder) asked(door string, id int64, found bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return
	}
	f.left--
	f.doors[door]++
	if !found {
		f.lost = append(f.lost, fmt.Sprintf("%s of job %d", door, id))
	}
}

// call makes a call over a connection of its own.
func (f *finder) call(method string, args []any, result any) error {
	c, err := luxiclient.Dial(context.Background(), f.path("run", "socket", "ganeti-query"), luxiclient.Options{AnswerTimeout: patience})
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Call(context.Background(), method, args, result)
}

// luxiDoors ask over LUXI and report whether the answer has the job.
var luxiDoors = map[string]func(f *finder, id int64) (bool, error){
	"QueryJobs": func(f *finder, id int64) (bool, error) {
		var rows [][]json.RawMessage
		err := f.call("QueryJobs", []any{[]int64{id}, []string{"id", "status", "opstatus"}}, &rows)
		return err == nil && len(rows) == 1 && len(rows[0]) == 3 && string(rows[0][2]) != "null", err
	},
	"Query": func(f *finder, id int64) (bool, error) {
		var table struct {
			Data [][][2]json.RawMessage `json:"data"`
		}
		err := f.call("Query", []any{"job", []string{"opresult"}, []any{"==", "id", id}}, &table)
		return err == nil && len(table.Data) == 1 && string(table.Data[0][0][0]) == "0", err
	},
	"WaitForJobChange": func(f *finder, id int64) (bool, error) {
		var change json.RawMessage
		err := f.call("WaitForJobChange", []any{id, []string{"opstatus"}, nil, nil, 10}, &change)
		return err == nil, err
	},
	"LockstepWhy": func(f *finder, id int64) (bool, error) {
		var why json.RawMessage
		err := f.call("LockstepWhy", []any{id}, &why)
		return err == nil, err
	},
	"LockstepListJobs": func(f *finder, id int64) (bool, error) {
		var list struct{ Jobs []json.RawMessage }
		err := f.call("LockstepListJobs", []any{map[string]any{"ids": []int64{id}}}, &list)
		return err == nil && len(list.Jobs) == 1, err
	},
}

// askLUXI asks by each door of LUXI. Without a daemon it waits for the next one.
func (f *finder) askLUXI(rng *rand.Rand) {
	for {
		for door, ask := range luxiDoors {
			id := f.take(rng)
			if id == 0 {
				return
			}
			found, err := ask(f, id)
			var failed *wire.Error
			if err == nil || errors.As(err, &failed) && failed.Class == "JobLost" {
				f.asked(door, id, found)
			}
		}
	}
}

// askHTTP asks by the remote API.
func (f *finder) askHTTP(rng *rand.Rand) {
	for {
		for _, route := range []string{"/2/jobs/%d", "/3/jobs/%d/log", "/3/jobs/%d/why"} {
			id := f.take(rng)
			if id == 0 {
				return
			}
			f.mu.Lock()
			request, err := http.NewRequest(http.MethodGet, f.url+fmt.Sprintf(route, id), nil)
			f.mu.Unlock()
			if err != nil {
				panic(err)
			}
			request.SetBasicAuth("peer", "secret")
			response, err := f.client.Do(request)
			if err != nil {
				continue
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if code := response.StatusCode; code == http.StatusOK || code == http.StatusNotFound {
				f.asked(route, id, code == http.StatusOK)
			}
		}
	}
}

// askCLI asks by the command line.
func (f *finder) askCLI(program string, rng *rand.Rand) {
	for {
		for _, command := range []string{"info", "log", "why", "wait"} {
			id := f.take(rng)
			if id == 0 {
				return
			}
			cmd := exec.Command(program, command, fmt.Sprint(id))
			cmd.Env = append(os.Environ(), "LOCKSTEP_SOCKET="+f.path("run", "socket", "ganeti-query"))
			out, _ := cmd.CombinedOutput()
			said := string(out)
			f.asked("lockstep "+command, id, !strings.Contains(said, "there is no job") && !strings.Contains(said, "not found") && !strings.Contains(said, "does not find"))
		}
	}
}

// work submits jobs, and archives all that have ended, without a pause.
func (f *finder) work() {
	for n := 0; ; n++ {
		f.mu.Lock()
		over := f.left == 0
		f.mu.Unlock()
		if over {
			return
		}
		var many [][2]json.RawMessage
		err := f.call("SubmitManyJobs", []any{[][]op{{command("true")}, {command("false")}, {command("true")}}}, &many)
		for _, one := range many {
			var id int64
			if err == nil && json.Unmarshal(one[1], &id) == nil {
				f.mu.Lock()
				f.jobs = append(f.jobs, id)
				f.mu.Unlock()
			}
		}
		var archived [2]int64
		_ = f.call("AutoArchiveJobs", []any{-1, 5}, &archived)
	}
}

// restart kills the daemon and starts the next one.
func (f *finder) restart() {
	f.kill()
	f.start("--rapi-address", "127.0.0.1:0", "--rapi-tls", "off")
	found := regexp.MustCompile(`address="?([0-9.:]+)"? tls=false`).FindAllStringSubmatch(f.logged(), -1)
	f.mu.Lock()
	f.url = "http://" + found[len(found)-1][1]
	f.mu.Unlock()
}

// Jobs are archived as soon as they have ended, and the daemon is killed and started again. Who asks meanwhile for a job that exists
// finds it, by every door.
func TestAJobIsFoundByEveryDoor(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	program, err := lockstepProgram()
	require.NoError(t, err)
	f := &finder{remote: d.startRemote("--rapi-tls", "off"), left: *foundQuestions, doors: map[string]int{}}
	f.url = f.remote.url
	f.jobs = []int64{d.dial().submit(command("true"))}
	var asking sync.WaitGroup
	asking.Go(f.work)
	for i := range uint64(3) {
		asking.Go(func() { f.askLUXI(rand.New(rand.NewPCG(i, 1))) })
	}
	asking.Go(func() { f.askHTTP(rand.New(rand.NewPCG(0, 2))) })
	asking.Go(func() { f.askCLI(program, rand.New(rand.NewPCG(0, 3))) })
	over := make(chan struct{})
	go func() {
		asking.Wait()
		close(over)
	}()
	for kills := 0; ; kills++ {
		select {
		case <-over:
			t.Logf("%d questions while the daemon was killed %d times: %v; %d jobs", *foundQuestions, kills, f.doors, len(f.jobs))
			require.Empty(t, f.lost)
			return
		case <-time.After(400 * time.Millisecond):
			f.restart()
		}
	}
}

// A job that a rule rejects has ended when its client learns the id, and is in the log of a majority, but perhaps not on the master's
// disk. Who asks at once for what only the file has finds it: reads wait for the writes before them.
func TestClusterFindsARejectedJobAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	m := c.master()
	x := m.dial()
	var filter string
	x.call("ReplaceFilter", &filter, nil, 0, [][]any{{"jobid", []any{">", "id", 0}}}, "REJECT", []any{})
	var asking sync.WaitGroup
	for range 4 {
		x, y := m.dial(), m.dial()
		asking.Go(func() {
			for range 50 {
				var many [][2]json.RawMessage
				x.call("SubmitManyJobs", &many, [][]op{{command("true")}, {command("true")}})
				for _, one := range many {
					var id int64
					var rows [][]json.RawMessage
					require.NoError(t, json.Unmarshal(one[1], &id))
					y.call("QueryJobs", &rows, []int64{id}, []string{"id", "opstatus"})
					require.Len(t, rows[0], 2)
					require.Equal(t, `["canceled"]`, string(rows[0][1]))
					var change json.RawMessage
					y.call("WaitForJobChange", &change, id, []string{"opstatus"}, nil, nil, 10)
				}
			}
		})
	}
	asking.Wait()
}
