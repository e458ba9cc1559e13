package zones

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// machine makes a root with files; a text that begins with "->" is a link.
func machine(t *testing.T, files map[string]string) root {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if len(text) > 2 && text[:2] == "->" {
			require.NoError(t, os.Symlink(text[2:], path))
		} else {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		}
	}
	return root(dir)
}

func TestTheNameOfTheMachinesZone(t *testing.T) {
	for _, c := range []struct {
		name  string
		tz    string // "unset" for none
		files map[string]string
		want  string
		err   string
	}{
		{"TZ comes first", "Asia/Tokyo", map[string]string{"etc/localtime": "->/usr/share/zoneinfo/Europe/Berlin"}, "Asia/Tokyo", ""},
		{"TZ with a colon", ":Asia/Tokyo", nil, "Asia/Tokyo", ""},
		{"TZ with a path", "/usr/share/zoneinfo/Asia/Tokyo", nil, "Asia/Tokyo", ""},
		{"TZ is empty", "", map[string]string{"etc/timezone": "Europe/Berlin\n"}, "UTC", ""},
		{"TZ is a rule", "CET-1CEST,M3.5.0,M10.5.0/3", nil, "", "TZ=CET-1CEST"},
		{"a link", "unset", map[string]string{"etc/localtime": "->../usr/share/zoneinfo/Europe/Berlin", "etc/timezone": "Asia/Tokyo\n"},
			"Europe/Berlin", ""},
		{"a link to posix/", "unset", map[string]string{"etc/localtime": "->/usr/share/zoneinfo/posix/Europe/Berlin"}, "Europe/Berlin", ""},
		{"a copy and a name", "unset", map[string]string{"etc/localtime": "TZif2", "etc/timezone": "Asia/Tokyo\n"}, "Asia/Tokyo", ""},
		{"a copy without a name", "unset", map[string]string{"etc/localtime": "TZif2"}, "", "name the zone"},
		{"nothing", "unset", nil, "UTC", ""},
		{"a wrong name", "unset", map[string]string{"etc/timezone": "Europe/Bergamo\n"}, "", "the zone of this machine, Europe/Bergamo, is no name"},
	} {
		got, err := machine(t, c.files).local(func(string) (string, bool) { return c.tz, c.tz != "unset" })
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.name)
			continue
		}
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, got, c.name)
	}
}

func TestWhichDataIsUsed(t *testing.T) {
	with := machine(t, map[string]string{"usr/share/zoneinfo/Europe/Berlin": "", "usr/share/zoneinfo/tzdata.zi": "# version 2025b\n# more"})
	require.Equal(t, "2025b of the machine", with.data("Europe/Berlin", ""))
	require.Regexp(t, `^embedded in lockstep \(Go [0-9.]+`, with.data("US/Eastern", ""), "a zone that the machine does not have")
	require.Equal(t, "2025b of the machine", with.data("Europe/Berlin", "/does/not/exist"))

	without := machine(t, map[string]string{"usr/lib/locale/TZ/Europe/Berlin": ""})
	require.Equal(t, "of the machine", without.data("Europe/Berlin", ""))
	other := filepath.Join(string(with), "usr/share/zoneinfo")
	require.Equal(t, "2025b of "+other, without.data("Europe/Berlin", other))
	require.Equal(t, "of "+filepath.Join(other, "tzdata.zi"), without.data("Europe/Berlin", filepath.Join(other, "tzdata.zi")))
}
