package main

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"lockstep/actors/luxi"
	"lockstep/core/config/calls"
	"lockstep/core/lock"
	"lockstep/edge/console"
	"lockstep/edge/rapi"
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
	for _, path := range []string{"/", "/1/list/collectors", "/1/report/all", "/1/report/default/jobqueue", "/metrics", "/healthz", "/readyz", "/nosuch"} {
		all = append(all, w.httpDoor("MonD", w.mond, http.MethodGet, path, ""))
	}
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
