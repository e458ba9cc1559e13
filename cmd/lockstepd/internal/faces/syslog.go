package faces

import (
	"fmt"
	"io"
	"log/syslog"
	"os"
	"path/filepath"

	"github.com/sirupsen/logrus"
	logrussyslog "github.com/sirupsen/logrus/hooks/syslog"
)

// Values of --syslog.
const (
	syslogNo   = "no"
	syslogYes  = "yes"  // log lines go to the log file and to syslog
	syslogOnly = "only" // log lines go to syslog alone; the log file has only what is no log line, such as the trace of a crash
)

// syslogOutput sends log lines to the syslog daemon of the machine. After a restart of that daemon the next line connects again.
type syslogOutput struct {
	hook *logrussyslog.SyslogHook
	only bool
}

// openSyslog connects to the syslog daemon: at its usual sockets, or at the datagram socket of that name. It returns nil if log lines
// do not go to syslog.
func openSyslog(use, socket string) (*syslogOutput, error) {
	if use == syslogNo {
		return nil, nil
	}
	network := ""
	if socket != "" {
		network = "unixgram"
	}
	hook, err := logrussyslog.NewSyslogHook(network, socket, syslog.LOG_INFO|syslog.LOG_DAEMON, filepath.Base(os.Args[0]))
	if err != nil {
		return nil, fmt.Errorf("--syslog=%s: no syslog daemon can be reached: %w", use, err)
	}
	return &syslogOutput{hook, use == syslogOnly}, nil
}

// apply adds the output to a log, and makes it the only one if that is wanted. A nil output changes nothing.
func (s *syslogOutput) apply(log *logrus.Logger) {
	if s == nil {
		return
	}
	log.AddHook(s.hook)
	if s.only {
		log.SetOutput(io.Discard)
	}
}
