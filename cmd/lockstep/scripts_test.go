package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"lockstep/cmd/internal/buildinfo"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/command"
)

// The scripts in testdata run the whole program in-process against a scripted daemon. Commands:
//
//	file NAME              the input becomes the file $TMP/NAME
//	confd NAME [OPTION]    starts a server of queries about the configuration at the address
//	                       $NAME, with the key $TMP/hmac.key. serial=N is the serial number of
//	                       its configuration, 0: it has none; silent: it answers nothing
//	lockstep [OPTION]...   runs one command line; the input is
//	                       its arguments, then the daemon's script
//
// Options: tty, intty, outtty, errtty (which streams are terminals), width=N,
// env=(NAME=VALUE, ...), stdin=FILE, nodaemon. The daemon's script, one step a line:
//
//	> METHOD ARGS       expect a request; "..." stands for any arguments
//	< RESULT            answer the latest request that has no answer yet
//	<! CLASS ARGS       ... with an error
//	<- TEXT             ... with the error for a malformed request
//	hang up             close the connection of that request instead
//	down, up            stop listening and close all connections; listen again
//	see TEXT            wait until the program has printed TEXT
//	type TEXT           a line from the keyboard
//	interrupt           Ctrl-C; terminate: SIGTERM
//	paused DURATION     wait until the program pauses for DURATION
//	resume              end that pause
//
// The expected output shows stdout and stderr line by line and the exit code; a
// backslash ends a line without newline, ␛ is escape, ␍ carriage return. $REQUEST is the
// step of a reason trail that names a submission.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		directory := shortTempDir(t)
		t.Chdir(directory)
		servers := queryServers{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "file":
				file := filepath.Join(directory, d.CmdArgs[0].Key)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(d.Input), 0o600); err != nil {
					t.Fatal(err)
				}
				return ""
			case "confd":
				servers.start(t, directory, d)
				return ""
			case "lockstep":
				d.Input = servers.expand(d.Input)
				return servers.shorten(newStage(t, directory, d).perform())
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

// shortTempDir is t.TempDir for paths of sockets, which must be short.
func shortTempDir(t *testing.T) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "ls")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	return directory
}

func now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// patience bounds each wait of a script; only failing tests wait so long.
const patience = 10 * time.Second

// stage is one run of the program with its scripted daemon.
type stage struct {
	directory string
	args      []string
	script    []string
	streams   cli.Streams
	daemon    *fakeDaemon
	out, err  *screen
	keyboard  *io.PipeWriter
	signals   chan os.Signal
	pauses    chan pause
}

type pause struct {
	length time.Duration
	end    chan time.Time
}

func newStage(t *testing.T, directory string, d *datadriven.TestData) *stage {
	t.Helper()
	shorthands := strings.NewReplacer("$TMP", directory, "$REQUEST", `["lockstep:request","0123456789abcdef0123456789abcdef",1767323045000000000]`)
	lines := strings.Split(shorthands.Replace(d.Input), "\n")
	changed := sync.NewCond(&sync.Mutex{})
	keys, keyboard := io.Pipe()
	s := &stage{
		directory: directory,
		args:      splitWords(lines[0]),
		script:    lines[1:],
		out:       &screen{changed: changed},
		err:       &screen{changed: changed},
		keyboard:  keyboard,
		signals:   make(chan os.Signal, 2),
		pauses:    make(chan pause, 100),
	}
	environment := map[string]string{"LOCKSTEP_SOCKET": filepath.Join(directory, "s"), "TERM": "xterm"}
	s.streams = cli.Streams{
		In: keys, Out: s.out, Err: s.err,
		InTerminal:  d.HasArg("tty") || d.HasArg("intty"),
		OutTerminal: d.HasArg("tty") || d.HasArg("outtty"),
		ErrTerminal: d.HasArg("tty") || d.HasArg("errtty"),
		LookupEnv:   func(name string) (string, bool) { value, ok := environment[name]; return value, ok },
		Now:         now,
		ReadSecret: func() (string, error) {
			line, err := bufio.NewReader(keys).ReadString('\n')
			return strings.TrimSuffix(line, "\n"), err
		},
		Build:       buildinfo.Build{Version: "1.2.3", Revision: "0123456789ab", Date: "2026-01-01", Go: "go1.26.8"},
		RequestName: func() string { return "0123456789abcdef0123456789abcdef" },
		After: func(length time.Duration) <-chan time.Time {
			p := pause{length, make(chan time.Time, 1)}
			s.pauses <- p
			return p.end
		},
		Interrupts: func(...os.Signal) (chan os.Signal, func()) { return s.signals, func() {} },
	}
	if d.HasArg("width") {
		d.ScanArgs(t, "width", &s.streams.Width)
	}
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "env":
			for _, pair := range arg.Vals {
				name, value, _ := strings.Cut(pair, "=")
				environment[name] = value
			}
		case "stdin":
			data, err := os.ReadFile(filepath.Join(directory, arg.Vals[0]))
			if err != nil {
				t.Fatal(err)
			}
			s.streams.In = bytes.NewReader(data)
		}
	}
	if !d.HasArg("nodaemon") {
		s.daemon = newFakeDaemon(t, filepath.Join(directory, "s"))
	}
	return s
}

// perform runs program and script and returns the visible output.
func (s *stage) perform() string {
	ended := make(chan struct{})
	complaint := make(chan string, 1)
	go func() { complaint <- s.follow(ended) }()
	code := command.Run(context.Background(), s.args, s.streams)
	close(ended)
	s.out.changed.L.Lock() // the script waits at this point, and reads ended
	s.out.changed.Broadcast()
	s.out.changed.L.Unlock()
	complaints := <-complaint
	s.keyboard.Close()
	if s.daemon != nil {
		s.daemon.down()
	}
	text := s.out.lines("out| ") + s.err.lines("err| ") + complaints + fmt.Sprintf("exit %d\n", code)
	return strings.ReplaceAll(text, s.directory, "$TMP")
}

// follow plays the daemon's script and returns the first error.
func (s *stage) follow(ended <-chan struct{}) string {
	var waiting []*exchange // requests without answer
	var current pause
	for _, step := range s.script {
		verb, rest, _ := strings.Cut(strings.TrimSpace(step), " ")
		var err error
		switch verb {
		case "", "#":
		case ">":
			var request *exchange
			if request, err = s.expect(rest, ended); request != nil {
				waiting = append(waiting, request)
			}
		case "<", "<!", "<-", "hang":
			if len(waiting) == 0 {
				err = fmt.Errorf("there is no request to answer")
				break
			}
			last := waiting[len(waiting)-1]
			waiting = waiting[:len(waiting)-1]
			last.answer <- encodeAnswer(verb, rest)
		case "down":
			s.daemon.down()
			waiting = nil
		case "up":
			err = s.daemon.up()
		case "see":
			err = s.see(rest, ended)
		case "type":
			_, err = io.WriteString(s.keyboard, rest+"\n")
		case "interrupt":
			s.signals <- os.Interrupt
		case "terminate":
			s.signals <- syscall.SIGTERM
		case "paused":
			current, err = s.paused(rest, ended)
		case "resume":
			current.end <- now()
		default:
			err = fmt.Errorf("unknown step")
		}
		if err != nil {
			s.giveUp(ended)
			return fmt.Sprintf("script: %s: %v\n", step, err)
		}
	}
	if s.daemon == nil {
		return ""
	}
	select {
	case <-ended:
		return ""
	case surplus := <-s.daemon.requests:
		s.giveUp(ended)
		return fmt.Sprintf("script: not expected: %s\n", surplus)
	case <-time.After(patience):
		s.giveUp(ended)
		return "script: the program does not end\n"
	}
}

// giveUp ends all waits of the program.
func (s *stage) giveUp(ended <-chan struct{}) {
	if s.daemon != nil {
		s.daemon.down()
	}
	go func() {
		for {
			select {
			case p := <-s.pauses:
				p.end <- now()
			case <-ended:
				return
			}
		}
	}()
}

func (s *stage) expect(want string, ended <-chan struct{}) (*exchange, error) {
	select {
	case got := <-s.daemon.requests:
		method, args, _ := strings.Cut(want, " ")
		if method != got.method || args != "..." && canonical(args) != canonical(got.args) {
			return nil, fmt.Errorf("got %s", got)
		}
		return got, nil
	case <-ended:
		return nil, fmt.Errorf("the program has ended")
	case <-time.After(patience):
		return nil, fmt.Errorf("no request")
	}
}

func (s *stage) see(text string, ended <-chan struct{}) error {
	timeout := time.AfterFunc(patience, s.out.changed.Broadcast)
	defer timeout.Stop()
	deadline := time.Now().Add(patience)
	s.out.changed.L.Lock()
	defer s.out.changed.L.Unlock()
	for {
		if strings.Contains(s.out.text.String(), text) || strings.Contains(s.err.text.String(), text) {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("the program has ended without")
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not seen")
		}
		s.out.changed.Wait()
	}
}

// paused waits for a pause of this length. Pauses of other lengths, at the same time, last on.
func (s *stage) paused(text string, ended <-chan struct{}) (pause, error) {
	length, err := time.ParseDuration(text)
	if err != nil {
		return pause{}, err
	}
	var others []time.Duration
	late := time.After(patience)
	for {
		select {
		case got := <-s.pauses:
			if got.length == length {
				return got, nil
			}
			others = append(others, got.length)
		case <-ended:
			return pause{}, fmt.Errorf("the program has ended, and has paused for %v", others)
		case <-late:
			return pause{}, fmt.Errorf("it pauses for %v", others)
		}
	}
}

// screen is a stream of the program that a script can watch.
type screen struct {
	changed *sync.Cond // one condition for both screens, so that see can watch both
	text    bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.changed.L.Lock()
	defer s.changed.L.Unlock()
	s.changed.Broadcast()
	return s.text.Write(p)
}

// lines shows the text with a prefix before each line.
func (s *screen) lines(prefix string) string {
	text := strings.NewReplacer("\x1b", "␛", "\r", "␍").Replace(s.text.String())
	if text == "" {
		return ""
	}
	text, whole := strings.CutSuffix(text, "\n")
	if !whole {
		text += `\`
	}
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(strings.TrimRight(prefix+line, " ") + "\n")
	}
	return b.String()
}

// canonical makes JSON texts comparable.
func canonical(text string) string {
	var value any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return text
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return text
	}
	return string(encoded)
}

// splitWords splits a command line at spaces; '...' quotes, in which \n, \x1b and the
// like stand for characters.
func splitWords(line string) []string {
	var words []string
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
		var word strings.Builder
		for rest != "" && rest[0] != ' ' {
			if rest[0] == '\'' {
				quoted, after, _ := strings.Cut(rest[1:], "'")
				text, err := strconv.Unquote(`"` + strings.ReplaceAll(quoted, `"`, `\"`) + `"`)
				if err != nil {
					text = quoted
				}
				word.WriteString(text)
				rest = after
				continue
			}
			word.WriteByte(rest[0])
			rest = rest[1:]
		}
		words = append(words, word.String())
	}
	return words
}
