package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/luxi"
	"lockstep/core/config/calls"
	"lockstep/core/lock"
	"lockstep/edge/console"
	"lockstep/edge/mond"
	"lockstep/edge/outputs/end"
	"lockstep/edge/rapi"
	"lockstep/persistence"
)

// door is one route or method, with the requests of an attacker who may read.
type door struct {
	listener string // the group of the table
	name     string
	as       int    // index of the attacker who can come here
	usual    target // with the most of an answer that a usual request has
	greedy   target // as large, and as much work, as one request may be
}

// How many bytes the requests of a slow writer have, and greedy ones for which nothing better is known.
const (
	slowSize   = 64 << 10
	greedySize = 16 << 20
)

// request is what an attack sends.
func (d *door) request(kind string) target {
	t := d.usual
	if kind == largest || kind == slowWriter {
		t = d.greedy
	}
	if kind == slowWriter {
		t.Filler = min(t.Filler, slowSize)
	}
	return t
}

// doors lists what the daemon has, from the tables of routes and methods, so that a new one is walked, too.
func (w *walk) doors() []door {
	all := w.rapiDoors()
	all = append(all, w.consoleDoors()...)
	all = append(all, w.mondDoors()...)
	all = append(all, w.nodeDoors()...)
	all = append(all, w.confdDoors()...)
	all = append(all, w.outputDoors()...)
	all = append(all, w.frameDoors("LUXI", "ganeti-query", stranger, luxi.Methods())...)
	return append(all, w.frameDoors("WConfD", "ganeti-wconfd", sameUser, slices.Concat(calls.Names(), lock.Functions(), []string{"echo"}))...)
}

// httpTarget is a request over HTTP. Its body is JSON, or a form for the console.
func httpTarget(address, method, path, header, body string) target {
	kind := "application/json"
	if strings.HasPrefix(path, "/ui") {
		kind = "application/x-www-form-urlencoded"
	}
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nAccept-Encoding: identity\r\n%s", method, path, address, header)
	if body != "" || method != http.MethodGet && method != http.MethodDelete {
		text += fmt.Sprintf("Content-Type: %s\r\nContent-Length: %d\r\n", kind, len(body))
	}
	return target{Network: "tcp", Address: address, Request: []byte(text + "\r\n" + body), HTTP: true}
}

// greedyRequests are the most expensive requests that are known, by method and path.
func (w *walk) greedyRequests() map[string][2]string { // query, body
	globs := make([]string, 20)
	for i := range globs {
		globs[i] = strings.Repeat("*a", 49) + fmt.Sprintf("%02d", i)
	}
	expensive := `["=~","summary","` + strings.Repeat("(a?){90}", 20) + `z"]`
	rule := fmt.Sprintf(`{"action":"PAUSE","predicates":[["opcode",["=~","comment","%s"]]]}`, strings.Repeat("(.*x){9}", 40))
	return map[string][2]string{
		"GET /3/jobs":              {"?archived=1&name=" + url.QueryEscape(strings.Join(globs, ",")), ""},
		"PUT /2/query/{kind}":      {"", `{"fields":["id","ops","oplog","summary"],"qfilter":` + expensive + `}`},
		"POST /3/filters/test":     {"", rule},
		"POST /ui/filters/preview": {"", "action=PAUSE&predicates=" + url.QueryEscape(`[["opcode",["=~","comment","`+strings.Repeat("(.*x){9}", 40)+`"]]]`)},
		"GET /ui/jobs":             {"?name=" + url.QueryEscape(strings.Join(globs, ",")), ""},
	}
}

// usualQueries ask for the most that a usual request answers.
func (w *walk) usualQueries() map[string]string {
	logs := url.Values{}
	for _, id := range w.logged {
		logs.Add("log", fmt.Sprintf("%d.0", id))
	}
	return map[string]string{
		"GET /2/jobs":         "?bulk=1",
		"GET /2/query/{kind}": "?fields=id,ops,oplog,opresult,summary",
		"GET /ui/events":      "?" + logs.Encode(),
		"GET /3/jobs":         "?archived=1&limit=1000",
	}
}

// httpDoor makes a door of a method and a pattern of paths.
func (w *walk) httpDoor(listener, address, method, pattern, header string) door {
	key := method + " " + pattern
	path := strings.NewReplacer("{id}", fmt.Sprint(w.logged[0]), "{uuid}", w.rule, "{kind}", "job", "{node}", "n1", "{action}", "cancel",
		"{disk}", "0", "{name}", "x", "{$}", "").Replace(pattern)
	body := ""
	if method != http.MethodGet && method != http.MethodDelete {
		body = "{}"
	}
	d := door{listener: listener, name: key, as: stranger, usual: httpTarget(address, method, path+w.usualQueries()[key], header, body)}
	if g, known := w.greedyRequests()[key]; known {
		d.greedy = httpTarget(address, method, path+g[0], header, g[1])
	} else if body == "" {
		d.greedy = httpTarget(address, method, path+"?x="+strings.Repeat("x", 12<<10), header, "")
	} else {
		d.greedy = httpTarget(address, method, path, header, `{"x":"`+strings.Repeat("x", 1<<20-100)+`"}`)
	}
	return d
}

func (w *walk) rapiDoors() (all []door) {
	for _, route := range rapi.Routes() {
		method, path, _ := strings.Cut(route, " ")
		all = append(all, w.httpDoor("remote API", w.address, method, path, "Authorization: Basic bWFsbG9yeTpzZWNyZXQ=\r\n"))
	}
	return all
}

func (w *walk) consoleDoors() (all []door) {
	for _, route := range console.Routes() {
		method, path, _ := strings.Cut(route, " ")
		all = append(all, w.httpDoor("console", w.address, method, path, "Origin: http://"+w.address+"\r\nCookie: "+w.cookie+"\r\n"))
	}
	return all
}

func (w *walk) mondDoors() (all []door) {
	for _, path := range mond.Paths() {
		all = append(all, w.httpDoor("MonD", w.mond, http.MethodGet, path, ""))
	}
	return all
}

// nodeDoors are what the port of nodes has for a client without a certificate. All else begins with one.
func (w *walk) nodeDoors() (all []door) {
	join := func(method, path string, filler int) target {
		t := httpTarget(w.nodes, method, path, "", `{"secret":"`+strings.Repeat("x", filler)+`"}`)
		t.Protocol = "lockstep-join"
		return t
	}
	garbage := target{Network: "tcp", Address: w.nodes, Request: bytes.Repeat([]byte("\x16\x03\x01\xff\xff garbage"), 100)}
	return []door{
		{"port of nodes", "no TLS", stranger, garbage, garbage},
		{"port of nodes", "lockstep-join POST /v1/join", stranger, join("POST", "/v1/join", 100), join("POST", "/v1/join", 60<<10)},
		{"port of nodes", "lockstep-join GET /v1/about", stranger, join("GET", "/v1/about", 100), join("GET", "/v1/about", 60<<10)},
	}
}

// confdDoors are what the port of queries about the configuration has for a client without its key.
func (w *walk) confdDoors() []door {
	packet := func(size int) target {
		return target{Network: "udp", Address: w.confd, Request: append([]byte("plj0"), bytes.Repeat([]byte("x"), size)...)}
	}
	return []door{{"ConfD", "a packet without a signature", stranger, packet(200), packet(60_000)}}
}

// outputDoors are what the socket for output has for a reader.
func (w *walk) outputDoors() []door {
	hello := func(text string, size int) target {
		line := text + strings.Repeat(" ", size-len(text)-1) + "\n"
		return target{Network: "unix", Address: w.path("run", "socket", persistence.OutputSocket), Request: []byte(line)}
	}
	kept := fmt.Sprintf(`{"job":%d,"kept":{"stream":0,"from":0,"to":%d}}`, w.kept, keptBytes)
	waits := fmt.Sprintf(`{"job":%d,"follows":true}`, w.kept+1_000_000)
	return []door{
		{"output", "kept output", stranger, hello(kept, 100), hello(kept, end.HelloMax)},
		{"output", "a reader that waits", stranger, hello(waits, 100), hello(waits, end.HelloMax)},
	}
}

// requireAllListeners fails if the daemon listens where no door is.
func (w *walk) requireAllListeners(doors []door) {
	known := map[string]bool{w.path("run", "socket", persistence.AdminSocket): true} // it is for the daemon's own user alone
	for _, d := range doors {
		at := d.usual.Address
		if d.usual.Network != "unix" {
			_, port, err := net.SplitHostPort(at)
			require.NoError(w.t, err)
			at = d.usual.Network + " " + port
		}
		known[at] = true
	}
	found := listeningOf(w.t, w.cmd.Process.Pid)
	require.GreaterOrEqual(w.t, len(found), 6)
	for _, at := range found {
		require.True(w.t, known[at], "the walk does not come to %s", at)
	}
	info, err := os.Stat(w.path("run", "socket", persistence.AdminSocket))
	require.NoError(w.t, err)
	require.Equal(w.t, fs.FileMode(0o600), info.Mode().Perm())
}

// listeningOf are the sockets at which a process listens: paths, and "tcp" or "udp" with a port.
func listeningOf(t testing.TB, pid int) (all []string) {
	proc := fmt.Sprintf("/proc/%d/", pid)
	mine := map[string]bool{} // inodes
	descriptors, err := os.ReadDir(proc + "fd")
	require.NoError(t, err)
	for _, d := range descriptors {
		if to, err := os.Readlink(proc + "fd/" + d.Name()); err == nil && strings.HasPrefix(to, "socket:[") {
			mine[strings.Trim(to, "socket:[]")] = true
		}
	}
	rows := func(name string, each func(columns []string)) {
		table, err := os.ReadFile(proc + "net/" + name)
		require.NoError(t, err)
		for line := range strings.Lines(string(table)) {
			each(strings.Fields(line))
		}
	}
	for _, network := range []string{"tcp", "tcp6", "udp", "udp6"} {
		rows(network, func(c []string) {
			const listens, bound = "0A", "07"
			if len(c) < 10 || !mine[c[9]] || c[3] != listens && c[3] != bound {
				return
			}
			_, hex, _ := strings.Cut(c[1], ":")
			port, err := strconv.ParseUint(hex, 16, 16)
			require.NoError(t, err)
			all = append(all, fmt.Sprintf("%s %d", network[:3], port))
		})
	}
	rows("unix", func(c []string) {
		const listens = "00010000"
		if len(c) == 8 && mine[c[6]] && c[3] == listens {
			all = append(all, c[7])
		}
	})
	return all
}

// frameDoors are the methods of a socket.
func (w *walk) frameDoors(listener, socket string, as int, methods []string) (all []door) {
	frame := func(method, args string) target {
		return target{Network: "unix", Address: w.path("run", "socket", socket), Request: []byte(`{"method":"` + method + `","args":` + args + "}\x03")}
	}
	jobs := `["id","ops","oplog","opresult","summary"]`
	usual := map[string]string{
		"QueryJobs":        `[null,` + jobs + `]`,
		"Query":            `["job",` + jobs + `,null]`,
		"LockstepPageJobs": `[{"limit":1000}]`,
		"LockstepListJobs": `[{}]`,
		"LockstepUsage":    `[{}]`,
	}
	filter := `["|"` + strings.Repeat(`,["=~","summary","(a?){90}z"]`, 90) + `]`
	greedy := map[string]string{
		"Query":              `["job",` + jobs + `,` + filter + `]`,
		"LockstepTestFilter": `[null,0,[["opcode",["=~","comment","` + strings.Repeat("(.*x){9}", 40) + `"]]],"PAUSE",[]]`,
		"LockstepPageJobs":   `[{"names":["` + strings.Repeat("*a", 50) + `"]}]`,
	}
	for _, method := range methods {
		args, large := usual[method], greedy[method]
		if args == "" {
			args = "[]"
		}
		if large == "" {
			large = `["` + fillerMark + `"]`
		}
		d := door{listener: listener, name: method, as: as, usual: frame(method, args), greedy: frame(method, large)}
		d.greedy.Filler = greedySize
		all = append(all, d)
	}
	return all
}
