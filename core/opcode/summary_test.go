package opcode

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestSummary(t *testing.T) {
	long := strings.Repeat("ä", 60)
	for _, test := range []struct{ input, want string }{
		{`{"duration":1.0e-2,"OP_ID":"OP_TEST_DELAY"}`, "TEST_DELAY(1.0e-2)"},
		{`{"duration": 1.5, "OP_ID": "OP_TEST_DELAY"}`, "TEST_DELAY(1.5)"},
		{`{"OP_ID":"OP_TEST_DELAY","duration":1}`, "TEST_DELAY(1.0)"},
		{`{"OP_ID":"OP_TEST_DELAY","duration":0}`, "TEST_DELAY(0.0)"},
		{`{"OP_ID":"OP_TEST_DELAY","duration":0.1}`, "TEST_DELAY(0.1)"},
		{`{"OP_ID":"OP_TEST_DELAY","duration":0.099}`, "TEST_DELAY(9.9e-2)"},
		{`{"OP_ID":"OP_TEST_DELAY","duration":9999999}`, "TEST_DELAY(9999999.0)"},
		{`{"OP_ID":"OP_TEST_DELAY","duration":1e7}`, "TEST_DELAY(1.0e7)"},
		{`{"OP_ID":"OP_TEST_DELAY","duration":12345678.9}`, "TEST_DELAY(1.23456789e7)"},
		{`{"OP_ID":"OP_TEST_DELAY","duration":-0.5}`, "TEST_DELAY(-0.5)"},
		{`{"OP_ID":"OP_TEST_DELAY","duration":1e300}`, "TEST_DELAY(1.0e300)"},
		{`{"OP_ID":"OP_TEST_DELAY","duration":"1"}`, "TEST_DELAY"},
		{`{"OP_ID":"OP_TEST_DELAY"}`, "TEST_DELAY"},

		{`{"OP_ID":"OP_INSTANCE_STARTUP","instance_name":"web.example"}`, "INSTANCE_STARTUP(web.example)"},
		{`{"OP_ID":"OP_INSTANCE_STARTUP","instance_name":"web\n\u001b[1m"}`, `INSTANCE_STARTUP(web\n\x1b[1m)`},
		{`{"OP_ID":"OP_INSTANCE_STARTUP","instance_name":null}`, "INSTANCE_STARTUP"},
		{`{"OP_ID":"OP_QUERY","what":"os"}`, "QUERY(os)"},
		{`{"OP_ID":"OP_CLUSTER_VERIFY","what":"os"}`, "CLUSTER_VERIFY"},
		{`{"OP_ID":"OP_TEST_ALLOCATOR","iallocator":null}`, "TEST_ALLOCATOR(None)"},
		{`{"OP_ID":"OP_TEST_ALLOCATOR"}`, "TEST_ALLOCATOR(None)"},
		{`{"OP_ID":"OP_TEST_ALLOCATOR","iallocator":"hail"}`, "TEST_ALLOCATOR(hail)"},
		{`{"OP_ID":"OP_TAGS_GET","kind":"instance","name":"x"}`, "TAGS_GET(TagKindInstance)"},
		{`{"OP_ID":"OP_TAGS_GET","kind":"nodegroup"}`, "TAGS_GET(TagKindGroup)"},
		{`{"OP_ID":"OP_TAGS_GET","kind":"x"}`, "TAGS_GET"},

		{`{"OP_ID":"OP_RUN_COMMAND","argv":["gzip","-9","file"]}`, "RUN_COMMAND(gzip -9 file)"},
		{`{"OP_ID":"OP_RUN_COMMAND","argv":["sh","-c","echo \"a\tb\"\n\u0007\u2028"]}`, `RUN_COMMAND(sh -c echo "a\tb"\n\a\u2028)`},
		{`{"OP_ID":"OP_RUN_COMMAND","argv":["` + long + `"]}`, "RUN_COMMAND(" + long + ")"},
		{`{"OP_ID":"OP_RUN_COMMAND","argv":["` + long + `x"]}`, "RUN_COMMAND(" + long[:118] + "…)"},
		{`{"OP_ID":"OP_RUN_COMMAND","argv":["` + long[:116] + `\n\n","x"]}`, "RUN_COMMAND(" + long[:116] + "…)"},
		{`{"OP_ID":"OP_RUN_COMMAND","argv":["` + long[:116] + `\n"]}`, "RUN_COMMAND(" + long[:116] + `\n)`},
		{`{"OP_ID":"OP_RUN_COMMAND","argv":[]}`, "RUN_COMMAND"},
		{`{"OP_ID":"OP_RUN_COMMAND","argv":[1]}`, "RUN_COMMAND"},
		{`{"OP_ID":"OP_RUN_COMMAND","argv":"x"}`, "RUN_COMMAND"},

		{`{"OP_ID":"OP_SOMETHING_NEW","instance_name":"x"}`, "SOMETHING_NEW"},
		{`{"OP_ID":"something"}`, "something"},
		{`{"OP_ID":""}`, "INVALID_OP"},
		{`{"OP_ID":7}`, "INVALID_OP"},
		{`{}`, "INVALID_OP"},
		{`null`, "INVALID_OP"},
		{``, "INVALID_OP"},
		{`[{"OP_ID":"OP_TEST_DELAY"}]`, "INVALID_OP"},
		{`{"x":{"OP_ID":"OP_TEST_DELAY"}}`, "INVALID_OP"},
	} {
		require.Equal(t, test.want, Summary(json.RawMessage(test.input)), test.input)
	}
}

func TestSummaryLength(t *testing.T) {
	for _, argv := range []string{
		`["` + strings.Repeat("x", 200) + `"]`,
		`["x"` + strings.Repeat(`,"x"`, 200) + `]`,
		`["x"` + strings.Repeat(`,""`, 200) + `]`,
		`["` + strings.Repeat(`\n`, 200) + `"]`,
		`["` + strings.Repeat(`\u2028`, 200) + `"]`,
		`["` + strings.Repeat(`a\u0007\u00e4\u200b`, 200) + `"]`,
	} {
		summary := Summary(json.RawMessage(command(`"argv":` + argv)))
		inner := strings.TrimSuffix(strings.TrimPrefix(summary, "RUN_COMMAND("), ")")
		require.LessOrEqual(t, utf8.RuneCountInString(inner), summaryRunesMax)
		require.Greater(t, utf8.RuneCountInString(inner), summaryRunesMax-8)
		require.True(t, strings.HasSuffix(inner, "…"), inner)
	}
}

var summarySink string

func BenchmarkSummary(b *testing.B) {
	for name, input := range map[string]string{
		"delay": `{"duration":1.0e-2,` + delayDefaults + commonDefaults + `"OP_ID":"OP_TEST_DELAY"}`,
		"command": `{"argv":["gzip","-9","/var/backups/some-file.tar"],"env":{"PATH":"/usr/bin:/bin","LANG":"C"},` +
			`"cwd":"/var/backups","timeout":600,` + commonDefaults + `"OP_ID":"OP_RUN_COMMAND"}`,
	} {
		b.Run(name, func(b *testing.B) {
			raw := json.RawMessage(input)
			b.ReportAllocs()
			for b.Loop() {
				summarySink = Summary(raw)
			}
		})
	}
}
