package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// cluster is three daemons on this machine. The first is the founder.
func cluster(t *testing.T) []*daemon {
	t.Helper()
	var nodes []*daemon
	first := ""
	for i := range 3 {
		d := newDaemon(t)
		name := fmt.Sprintf("n%d", i+1)
		address := "127.0.0.1:" + freePort(t)
		dirs := []string{"--data-dir", d.dir + "/lib"}
		if i == 0 {
			first = address
			d.cli(append([]string{"node", "init", "--name", name, "--address", address}, dirs...)...)
		} else {
			token := nodes[0].cli("node", "token", "--data-dir", nodes[0].dir+"/lib")
			must(t, os.WriteFile(filepath.Join(d.dir, "token"), []byte(token+"\n"), 0o600))
			d.cli(append([]string{"node", "add", "--name", name, "--address", address, "--join", first, "--token-file", filepath.Join(d.dir, "token")}, dirs...)...)
		}
		d.start()
		nodes = append(nodes, d)
	}
	nodes[0].await("three voters", func() bool { return strings.Count(nodes[0].cli("node", "list", "--json"), `"voter": true`) == 3 })
	return nodes
}

// Every node serves the console. A session opened at one is valid at all. When the master dies, a page of another node says so, and goes
// on without a reload or a login; a page of the dead node links to the others.
func TestTheMasterDies(t *testing.T) {
	nodes := cluster(t)
	nodes[0].submit([]string{"--name", "before"}, "true")
	b := newBrowser(t)
	b.login(nodes[1], "operator", "/ui/jobs")
	b.until(`document.querySelector("#job-1 .s-success")`)
	b.run("window.here = true; 0")
	dead := newBrowser(t)
	dead.login(nodes[0], "operator", "/ui/jobs")
	dead.until(`localStorage.length > 0 && document.querySelector("#live").innerText === "live"`)
	nodes[0].submit([]string{"--name", "through"}, "true")
	b.until(`document.querySelector("#job-2 .s-success")`) // live from another node

	killed := time.Now()
	nodes[0].kill()
	dead.until(`document.querySelectorAll("#banner a").length === 2`)
	if took := time.Since(killed); took > 5*time.Second {
		t.Errorf("the page of the dead node says so after %v", took)
	}
	links := dead.text("#banner")
	if !strings.Contains(links, "n2") || !strings.Contains(links, "n3") {
		t.Errorf("the banner is %q", links)
	}
	b.until(`!document.querySelector("#banner").hidden || document.querySelector("#live").innerText === "live"`)
	nodes[1].await("a master", func() bool {
		_, err := nodes[1].try("run", "--detach", "--name", "after", "--", "true")
		return err == nil
	})
	elected := time.Now()
	b.until(`[...document.querySelectorAll("#list tbody tr")].some(r => r.innerText.includes("after") && r.querySelector(".s-success")) && document.querySelector("#banner").hidden`)
	if took := time.Since(elected); took > 5*time.Second {
		t.Errorf("the page goes on %v after the election", took)
	}
	if !eval[bool](b, "window.here === true") {
		t.Error("the page was loaded again")
	}
	b.requireCalm()
}
