package roff

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAPage(t *testing.T) {
	p := New("some-daemon", 8, "does it", time.Date(2026, 11, 22, 23, 0, 0, 0, time.UTC))
	p.Section("DESCRIPTION")
	p.Text("One.\n\nTwo \\ three.\n.four")
	p.Example("a --b\n")
	p.Item("--flag", "file", "Its text.")
	require.Equal(t, `.TH SOME-DAEMON 8 2026-11-22 lockstep
.SH NAME
some\-daemon \- does it
.SH DESCRIPTION
One.
.PP
Two \e three.
\&.four
.RS 4
.nf
a \-\-b
.fi
.RE
.TP
\fB\-\-flag\fR \fIfile\fR
Its text.
`, p.String())
}
