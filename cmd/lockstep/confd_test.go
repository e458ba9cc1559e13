package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/sirupsen/logrus"

	"lockstep/core/confd"
	"lockstep/core/config/model"
	edge "lockstep/edge/confd"
)

// configOf returns the path of the recorded configuration. It is absolute, because scripts change the working directory.
func configOf(t *testing.T) string {
	t.Helper()
	return filepath.Join(packageDir, "../../core/confd/testdata/config.data")
}

// packageDir is where a test begins: the sources of this package.
var packageDir, _ = os.Getwd()

// queryServers are the addresses of servers of queries about the configuration, by their names in a script.
type queryServers map[string]string

// start starts a server with the configuration of the recordings, or with silent opens a socket that nothing reads.
func (q queryServers) start(t *testing.T, directory string, d *datadriven.TestData) {
	t.Helper()
	name, serial := d.CmdArgs[0].Key, 77
	d.MaybeScanArgs(t, "serial", &serial)
	if d.HasArg("silent") {
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		q[name] = conn.LocalAddr().String()
		return
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	s, err := edge.Listen(edge.Config{Log: log, Address: "127.0.0.1:0", DataDir: directory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	q[name] = s.Address().String()
	if serial == 0 {
		return
	}
	recorded, err := os.ReadFile(configOf(t))
	if err != nil {
		t.Fatal(err)
	}
	config, err := model.Decode([]byte(strings.Replace(string(recorded), `"serial_no": 77`, `"serial_no": `+strconv.Itoa(serial), 1)))
	if err != nil {
		t.Fatal(err)
	}
	s.Use(confd.NewSnapshot(config, nil))
}

// expand replaces the names of servers by their addresses.
func (q queryServers) expand(text string) string {
	for name, address := range q {
		text = strings.ReplaceAll(text, "$"+name, address)
	}
	return text
}

// shorten replaces the addresses of servers by their names.
func (q queryServers) shorten(text string) string {
	for name, address := range q {
		text = strings.ReplaceAll(text, address, "$"+name)
	}
	return text
}
