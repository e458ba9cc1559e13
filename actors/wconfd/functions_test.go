package wconfd_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/locks"
	"lockstep/messages"
)

const (
	me        = `[12,"/live/job_000012_1",112]`
	exclusive = `[["cluster/config","exclusive"]]`
	shared    = `[["cluster/config","shared"]]`
	// forLocks stands for an answer of the lock manager.
	forLocks    = "the lock manager's"
	unsupported = "not supported"
)

// functions are those of locks.md 2.3, each with arguments and its answer if all neighbours succeed.
var functions = map[string][2]string{
	"echo":                      {`["hello \"\u2028<&"]`, `"hello \"\u2028<&"`},
	"cleanupLocks":              {`[]`, forLocks},
	"prepareClusterDestruction": {`[` + me + `]`, `[]`},

	"readConfig":           {`[]`, "CONFIG"},
	"writeConfig":          {`[` + me + `,CONFIG]`, `[]`},
	"verifyConfig":         {`[]`, `[]`},
	"lockConfig":           {`[` + me + `,false]`, "CONFIG"},
	"unlockConfig":         {`[` + me + `]`, forLocks},
	"writeConfigAndUnlock": {`[` + me + `,CONFIG]`, `true`},
	"flushConfig":          {`[]`, `[]`},
	"flushConfigGroup":     {`["g"]`, `[]`},

	"dropAllReservations":      {`[` + me + `]`, `[]`},
	"computeDRBDMap":           {`[]`, unsupported},
	"allocateDRBDMinor":        {`["d",["n"]]`, unsupported},
	"releaseDRBDMinors":        {`["d"]`, unsupported},
	"generateMAC":              {`[` + me + `,null]`, unsupported},
	"reserveMAC":               {`[` + me + `,"aa:00:00:00:00:01"]`, unsupported},
	"generateDRBDSecret":       {`[` + me + `]`, unsupported},
	"reserveLV":                {`[` + me + `,"vg/lv"]`, unsupported},
	"reserveIp":                {`[` + me + `,"net","192.0.2.1",true]`, unsupported},
	"releaseIp":                {`[` + me + `,"net","192.0.2.1"]`, unsupported},
	"generateIp":               {`[` + me + `,"net"]`, unsupported},
	"commitTemporaryIps":       {`[` + me + `]`, unsupported},
	"commitReleaseTemporaryIp": {`["net","192.0.2.1"]`, unsupported},
	"listReservedIps":          {`[` + me + `]`, unsupported},

	"tryUpdateLocks":                {`[` + me + `,[["node/a","shared"]]]`, forLocks},
	"updateLocksWaiting":            {`[` + me + `,0,[["node/a","shared"]]]`, forLocks},
	"hasPendingRequest":             {`[` + me + `]`, forLocks},
	"freeLocks":                     {`[` + me + `]`, forLocks},
	"freeLocksLevel":                {`[` + me + `,"node"]`, forLocks},
	"downGradeLocksLevel":           {`[` + me + `,"node"]`, forLocks},
	"intersectLocks":                {`[` + me + `,["node/a"]]`, forLocks},
	"opportunisticLockUnion":        {`[` + me + `,[["node/a","shared"]]]`, forLocks},
	"guardedOpportunisticLockUnion": {`[1,` + me + `,[["node/a","shared"]]]`, forLocks},
	"listLocks":                     {`[` + me + `]`, forLocks},
	"listAllLocks":                  {`[]`, forLocks},
	"listAllLocksOwners":            {`[]`, forLocks},
	"listLocksWaitingStatus":        {`[]`, forLocks},

	"addInstance":            {`[{},` + me + `,false]`, unsupported},
	"addInstanceDisk":        {`["i",{},null,false]`, unsupported},
	"attachInstanceDisk":     {`["i","d",null]`, unsupported},
	"detachInstanceDisk":     {`["i","d"]`, unsupported},
	"removeInstanceDisk":     {`["i","d"]`, unsupported},
	"removeInstance":         {`["i"]`, unsupported},
	"setInstancePrimaryNode": {`["i","n"]`, unsupported},
	"setInstanceStatus":      {`["i",null,null,null]`, unsupported},
	"allocatePort":           {`[]`, unsupported},
	"addTcpUdpPort":          {`[1]`, unsupported},
	"updateCluster":          {`[{}]`, unsupported},
	"updateNode":             {`[{}]`, unsupported},
	"updateInstance":         {`[{}]`, unsupported},
	"updateNodeGroup":        {`[{}]`, unsupported},
	"updateNetwork":          {`[{}]`, unsupported},
	"updateDisk":             {`[{}]`, unsupported},
}

// content makes all neighbours succeed, with each owner a holder of the configuration lock.
func (b *bench) content() {
	b.locks.Answer(func(m any) any {
		c := m.(*locks.Call)
		if op, is := c.Operation.(locks.Apply); is && op.Call.Function == "listLocks" {
			return &locks.CallResult{Request: c.Request, Value: valueOf(b, op.Call.Function, exclusive)}
		}
		return &locks.CallResult{Request: c.Request, Value: forLocks}
	})
	b.cluster.Answer(func(m any) any {
		switch m := m.(type) {
		case *messages.PublishConfig:
			return &messages.ConfigPublished{Request: m.Request, Content: []byte(fresh(b))}
		case *messages.WriteConfig:
			return &messages.WriteConfigResult{Request: m.Request}
		case *messages.EditConfig:
			return &messages.EditConfigResult{Request: m.Request}
		}
		return nil
	})
}

// Each function of Ganeti's is served, or refused with a clear text. None of them ends the connection.
func TestEveryFunction(t *testing.T) {
	require.Len(t, functions, 54)
	onBench(t, func(t *testing.T, b *bench, c *client) {
		b.content()
		for method, row := range functions {
			c.Call(method, strings.Replace(row[0], "CONFIG", fresh(t), 1))
			want := `{"success":true,"result":` + strings.Replace(row[1], "CONFIG", fresh(t), 1) + `}`
			switch row[1] {
			case forLocks:
				want = `{"success":true,"result":"` + forLocks + `"}`
				if method == "listLocks" {
					want = `{"success":true,"result":` + exclusive + `}`
				}
			case unsupported:
				want = `{"success":false,"result":["GenericError",["` + method +
					` is not supported by lockstep: it keeps no reservations, and changes the configuration only as a whole"]]}`
			}
			require.JSONEq(t, want, c.Answer(), method)
			require.False(t, c.Closed(), method)
		}
	})
}

// The gateway checks the number and types of arguments.
func TestBadArguments(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		for call, text := range map[string]string{
			`echo []`:                             "RPC input: 0 arguments, expected 1",
			`echo [1]`:                            "RPC input: argument 1: ",
			`echo [null]`:                         "RPC input: argument 1 is null",
			`readConfig [1]`:                      "RPC input: 1 arguments, expected 0",
			`verifyConfig [null]`:                 "RPC input: 1 arguments, expected 0",
			`flushConfig [1]`:                     "RPC input: 1 arguments, expected 0",
			`flushConfigGroup []`:                 "RPC input: 0 arguments, expected 1",
			`dropAllReservations [[12]]`:          "RPC input: malformed client id: ",
			`lockConfig [` + me + `]`:             "RPC input: 1 arguments, expected 2",
			`lockConfig [` + me + `,0]`:           "RPC input: argument 2: ",
			`lockConfig [["x","/l",-1],false]`:    "RPC input: malformed client id: ",
			`writeConfig [` + me + `]`:            "RPC input: 1 arguments, expected 2",
			`writeConfig [` + me + `,[]]`:         "RPC input: argument 2 is not a configuration",
			`writeConfig [` + me + `,null]`:       "RPC input: argument 2 is null",
			`writeConfigAndUnlock [` + me + `,3]`: "RPC input: argument 2 is not a configuration",
			`prepareClusterDestruction []`:        "RPC input: 0 arguments, expected 1",
			`ReadConfig []`:                       "No such method: ReadConfig",
			`lockstepPassBGL [` + me + `]`:        "No such method: lockstepPassBGL",
		} {
			method, args, _ := strings.Cut(call, " ")
			c.Call(method, args)
			answer := c.Answer()
			require.True(t, strings.HasPrefix(answer, `{"success":false,"result":["GenericError",["`+text), "%s: %s", call, answer)
			require.False(t, c.Closed())
		}
		b.locks.Quiet()
		b.cluster.Quiet()
	})
}

// A call about locks goes to the lock manager, and the manager's error is the answer. Invalid arguments are refused at
// once.
func TestCallsAboutLocks(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("updateLocksWaiting", `[`+me+`, 1, [["node/a", "what"]]]`)
		require.JSONEq(t, `{"success":false,"result":["GenericError",["RPC input: argument 3: unknown lock mode \"what\", want shared, exclusive or release"]]}`, c.Answer())
		c.Call("updateLocksWaiting", `[`+me+`, 1, [["node/\ud83d", "shared"]]]`)
		request := c.locksAsked("updateLocksWaiting", `[`+me+`,1,[["node/\ud83d","shared"]]]`)
		c.Silent()
		c.locksAnswer(request+1, `"another's"`)
		c.Silent()
		c.locksFail(request, "no such mode")
		require.JSONEq(t, `{"success":false,"result":["GenericError",["no such mode"]]}`, c.Answer())
		c.Call("lockstepAwaitLocks", `[`+me+`,0,[],60]`)
		c.locksAnswer(c.locksAsked("lockstepAwaitLocks", `[`+me+`,0,[],60]`), `{"granted":true,"withdrawn":false,"blockers":null}`)
		require.JSONEq(t, `{"success":true,"result":{"granted":true,"withdrawn":false,"blockers":null}}`, c.Answer())
		c.locksAnswer(request, `"late"`)
		c.Silent()
	})
}

func TestLockConfig(t *testing.T) {
	for name, row := range map[string]struct{ shared, has, wants string }{
		"exclusive": {"false", `[["cluster/BGL","exclusive"]]`, exclusive},
		"shared":    {"true", `[]`, shared},
		"upgrade":   {"false", shared, exclusive},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench, c *client) {
				c.Call("lockConfig", `[`+me+`,`+row.shared+`]`)
				c.locksAnswer(c.locksAsked("listLocks", `[`+me+`]`), row.has)
				c.locksAnswer(c.locksAsked("tryUpdateLocks", `[`+me+`,`+row.wants+`]`), `[]`)
				c.Silent()
				c.configAnswer(fresh(t))
				require.JSONEq(t, `{"success":true,"result":`+fresh(t)+`}`, c.Answer())
			})
		})
	}
}

// An owner that already holds the lock gets the configuration. A stronger mode includes a weaker one.
func TestLockConfigThatIsHeld(t *testing.T) {
	for want, has := range map[string]string{"false": exclusive, "true": exclusive, "true ": shared} {
		onBench(t, func(t *testing.T, b *bench, c *client) {
			c.Call("lockConfig", `[`+me+`,`+want+`]`)
			c.locksAnswer(c.locksAsked("listLocks", `[`+me+`]`), has)
			c.configAnswer(fresh(t))
			require.JSONEq(t, `{"success":true,"result":`+fresh(t)+`}`, c.Answer())
			b.locks.Quiet()
		})
	}
}

func TestLockConfigThatIsBusy(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("lockConfig", `[`+me+`,false]`)
		c.locksAnswer(c.locksAsked("listLocks", `[`+me+`]`), `[]`)
		c.locksAnswer(c.locksAsked("tryUpdateLocks", `[`+me+`,`+exclusive+`]`), `[[7,"/live/7",7]]`)
		require.Equal(t, `{"success":true,"result":null}`, c.Answer())
		c.Call("lockConfig", `[`+me+`,false]`)
		c.locksFail(c.locksAsked("listLocks", `[`+me+`]`), "the disk is full")
		require.JSONEq(t, `{"success":false,"result":["GenericError",["the disk is full"]]}`, c.Answer())
		c.Call("lockConfig", `[`+me+`,false]`)
		c.locksAnswer(c.locksAsked("listLocks", `[`+me+`]`), `[]`)
		c.locksFail(c.locksAsked("tryUpdateLocks", `[`+me+`,`+exclusive+`]`), "it waits for something")
		require.JSONEq(t, `{"success":false,"result":["GenericError",["it waits for something"]]}`, c.Answer())
		b.cluster.Quiet()
	})
}

func TestWriteConfigNeedsTheLock(t *testing.T) {
	for method, want := range map[string]string{
		"writeConfig":          `{"success":false,"result":["GenericError",["Requested lock OwnExclusive on the configuration missing"]]}`,
		"writeConfigAndUnlock": `{"success":true,"result":false}`,
	} {
		onBench(t, func(t *testing.T, b *bench, c *client) {
			for _, has := range []string{`[]`, shared, `[["cluster/BGL","exclusive"]]`} {
				c.Call(method, `[`+me+`,`+fresh(t)+`]`)
				c.locksAnswer(c.locksAsked("listLocks", `[`+me+`]`), has)
				require.JSONEq(t, want, c.Answer())
			}
			b.cluster.Quiet()
		})
	}
}

// The lock is freed after the write. After a failed write the owner keeps it.
func TestWriteConfigAndUnlock(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		for _, failure := range []*messages.Failure{{Class: "ConfigurationError", Text: "no master"}, nil} {
			c.Call("writeConfigAndUnlock", `[`+me+`, `+fresh(t)+`]`)
			c.locksAnswer(c.locksAsked("listLocks", `[`+me+`]`), exclusive)
			m := asked[*messages.WriteConfig](c, b.cluster)
			require.JSONEq(t, fresh(t), string(m.Content))
			require.True(t, json.Valid(m.Content) && strings.HasSuffix(string(m.Content), "}\n"))
			b.locks.Quiet()
			c.Tell(&messages.WriteConfigResult{Request: m.Request, Failure: failure})
			if failure != nil {
				require.JSONEq(t, `{"success":false,"result":["ConfigurationError",["no master"]]}`, c.Answer())
				b.locks.Quiet()
			}
		}
		c.locksAnswer(c.locksAsked("unlockConfig", `[`+me+`]`), `[]`)
		require.Equal(t, `{"success":true,"result":true}`, c.Answer())
	})
}

func TestWriteConfig(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("writeConfig", `[`+me+`,`+fresh(t)+`]`)
		c.locksAnswer(c.locksAsked("listLocks", `[`+me+`]`), exclusive)
		m := asked[*messages.WriteConfig](c, b.cluster)
		c.Silent()
		c.Tell(&messages.WriteConfigResult{Request: m.Request})
		require.Equal(t, `{"success":true,"result":[]}`, c.Answer())
		b.locks.Quiet()
	})
}

func TestVerifyConfigNamesFaults(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("verifyConfig", `[]`)
		c.configAnswer(strings.Replace(fresh(t), `"filters":{}`, `"filters":{"f":{"uuid":"g"}}`, 1))
		require.JSONEq(t, `{"success":false,"result":["ConfigVerifyError",["Validation failed",["filters: f is called g inside"]]]}`, c.Answer())
	})
}

func TestPrepareClusterDestruction(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("prepareClusterDestruction", `[`+me+`]`)
		c.locksFail(c.locksAsked(passBGL, `[`+me+`]`), "Cluster destruction requested without owning BGL exclusively")
		require.JSONEq(t, `{"success":false,"result":["GenericError",["Cluster destruction requested without owning BGL exclusively"]]}`, c.Answer())
		b.cluster.Quiet()
		c.Call("prepareClusterDestruction", `[`+me+`]`)
		c.locksAnswer(c.locksAsked(passBGL, `[`+me+`]`), `[]`)
		m := asked[*messages.EditConfig](c, b.cluster)
		require.Equal(t, map[string][]byte{"master_node": []byte(`""`)}, m.Cluster)
		require.Empty(t, m.Filter)
		c.Silent()
		c.Tell(&messages.EditConfigResult{Request: m.Request})
		require.Equal(t, `{"success":true,"result":[]}`, c.Answer())
	})
}
