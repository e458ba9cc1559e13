package wconfd_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/conn"
	"lockstep/actors/conn/conntest"
	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/core/config/calls"
	"lockstep/core/config/configtest"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
)

const (
	me        = `[12,"/live/job_000012_1",112]`
	exclusive = `[["cluster/config","exclusive"]]`
	shared    = `[["cluster/config","shared"]]`
	// aConfig: the answer is a configuration.
	aConfig = "a configuration"
)

// functions are those of locks.md 2.3, each with arguments and its answer. CONFIG, INSTANCE and so on are objects of the
// configuration.
var functions = map[string][2]string{
	"echo":                      {`["hello \"\u2028<&"]`, `"hello \"\u2028<&"`},
	"cleanupLocks":              {`[]`, `[]`},
	"prepareClusterDestruction": {`[` + me + `]`, `[]`},

	"readConfig":           {`[]`, aConfig},
	"writeConfig":          {`[` + me + `,CONFIG]`, `[]`},
	"verifyConfig":         {`[]`, `[]`},
	"lockConfig":           {`[` + me + `,false]`, aConfig},
	"unlockConfig":         {`[` + me + `]`, `[]`},
	"writeConfigAndUnlock": {`[` + me + `,CONFIG]`, `true`},
	"flushConfig":          {`[]`, `[]`},
	"flushConfigGroup":     {`["g"]`, `[]`},

	"dropAllReservations":      {`[` + me + `]`, `[]`},
	"computeDRBDMap":           {`[]`, `[["n",[]]]`},
	"allocateDRBDMinor":        {`["d",["n"]]`, `[0]`},
	"releaseDRBDMinors":        {`["d"]`, `[]`},
	"generateMAC":              {`[` + me + `,null]`, `"aa:00:00:00:00:00"`},
	"reserveMAC":               {`[` + me + `,"aa:00:00:00:00:02"]`, `[]`},
	"generateDRBDSecret":       {`[` + me + `]`, `"0000000000000000000000000000000000000000"`},
	"reserveLV":                {`[` + me + `,"vg/lv"]`, `[]`},
	"reserveIp":                {`[` + me + `,"w","192.0.2.5",true]`, `[]`},
	"releaseIp":                {`[` + me + `,"w","192.0.2.0"]`, `[]`},
	"generateIp":               {`[` + me + `,"w"]`, `"192.0.2.1"`},
	"commitTemporaryIps":       {`[` + me + `]`, `[]`},
	"commitReleaseTemporaryIp": {`["w","192.0.2.0"]`, `[]`},
	"listReservedIps":          {`[` + me + `]`, `[]`},

	"tryUpdateLocks":                {`[` + me + `,[["node/a","shared"]]]`, `[]`},
	"updateLocksWaiting":            {`[` + me + `,0,[["node/a","shared"]]]`, `[]`},
	"hasPendingRequest":             {`[` + me + `]`, `false`},
	"freeLocks":                     {`[` + me + `]`, `[]`},
	"freeLocksLevel":                {`[` + me + `,"node"]`, `[]`},
	"downGradeLocksLevel":           {`[` + me + `,"node"]`, `[]`},
	"intersectLocks":                {`[` + me + `,["node/a"]]`, `[]`},
	"opportunisticLockUnion":        {`[` + me + `,[["node/a","shared"]]]`, `[]`},
	"guardedOpportunisticLockUnion": {`[1,` + me + `,[["node/a","shared"]]]`, `[]`},
	"listLocks":                     {`[` + me + `]`, `[]`},
	"listAllLocks":                  {`[]`, `[]`},
	"listAllLocksOwners":            {`[]`, `[]`},
	"listLocksWaitingStatus":        {`[]`, `[]`},

	"addInstance":            {`[NEW,` + me + `,false]`, `true`},
	"addInstanceDisk":        {`["i",EMPTY,null,false]`, `true`},
	"attachInstanceDisk":     {`["i","e",null]`, `true`},
	"detachInstanceDisk":     {`["i","d"]`, `true`},
	"removeInstanceDisk":     {`["i","d"]`, `true`},
	"removeInstance":         {`["i"]`, `true`},
	"setInstancePrimaryNode": {`["i","n"]`, `true`},
	"setInstanceStatus":      {`["i",null,null,null]`, `INSTANCE`},
	"allocatePort":           {`[]`, `11000`},
	"addTcpUdpPort":          {`[11001]`, `true`},
	"updateCluster":          {`[CLUSTER]`, `[2,TIME]`},
	"updateNode":             {`[NODE]`, `[2,TIME]`},
	"updateInstance":         {`[INSTANCE]`, `[2,TIME]`},
	"updateNodeGroup":        {`[GROUP]`, `[2,TIME]`},
	"updateNetwork":          {`[NETWORK]`, `[2,TIME]`},
	"updateDisk":             {`[DISK]`, `[2,TIME]`},
}

// withObjects replaces the names of objects in arguments and answers.
func withObjects(t require.TestingT, text string) string {
	c := fresh(t)
	added := configtest.Complete(t, []byte(`{"instances": {"j": {"name": "web", "primary_node": "n"}}, "disks": {"f": {"dev_type": "plain", "logical_id": ["vg", "four"]}}}`))
	object := func(k interface{ JSON() []byte }, found bool) string {
		require.True(t, found)
		return string(k.JSON())
	}
	get := map[string]string{"CONFIG": string(c.JSON()), "CLUSTER": string(c.Cluster.JSON())}
	node, found := c.Nodes.Get("n")
	get["NODE"] = object(node, found)
	group, found := c.Groups.Get("g")
	get["GROUP"] = object(group, found)
	instance, found := c.Instances.Get("i")
	get["INSTANCE"] = object(instance, found)
	network, found := c.Networks.Get("w")
	get["NETWORK"] = object(network, found)
	disk, found := c.Disks.Get("d")
	get["DISK"] = object(disk, found)
	instance, found = added.Instances.Get("j")
	get["NEW"] = object(instance, found)
	disk, found = added.Disks.Get("f")
	get["EMPTY"] = object(disk, found)
	for name, value := range get {
		text = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllLiteralString(text, value)
	}
	return text
}

// Each function of Ganeti's is served by the real actors. None of them ends the connection.
func TestEveryFunction(t *testing.T) {
	require.Len(t, functions, 54)
	for method, row := range functions {
		t.Run(method, func(t *testing.T) {
			onWhole(t, func(t *testing.T, w *whole, c *client) {
				switch method {
				case "writeConfig", "writeConfigAndUnlock":
					c.result("lockConfig", `[`+me+`,false]`)
				case "prepareClusterDestruction":
					c.result("tryUpdateLocks", `[`+me+`,[["cluster/BGL","exclusive"]]]`)
				}
				want := strings.Replace(withObjects(t, row[1]), "TIME", fmt.Sprint(w.Clock.Now().Unix()), 1)
				got := c.result(method, withObjects(t, row[0]))
				if row[1] == aConfig {
					want = freshText(t)
				}
				if method == "listLocksWaitingStatus" {
					want = `[[],[]]`
				}
				if strings.HasSuffix(method, "LockUnion") {
					want = `["node/a"]`
				}
				require.JSONEq(t, want, got)
				require.False(t, c.Closed())
			})
		})
	}
}

// The gateway checks the number and types of arguments.
func TestBadArguments(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		for call, text := range map[string]string{
			`echo []`:                             "RPC input: 0 arguments, expected 1",
			`echo [1]`:                            "RPC input: argument 1: ",
			`echo [null]`:                         "RPC input: argument 1 is null",
			`readConfig [1]`:                      "RPC input: Unable to read ()",
			`verifyConfig [null]`:                 "RPC input: Unable to read ()",
			`flushConfig [1]`:                     "RPC input: Unable to read ()",
			`flushConfigGroup []`:                 "RPC input: Unable to read 1 tuple",
			`dropAllReservations [[12]]`:          "RPC input: malformed client id: ",
			`lockConfig [` + me + `]`:             "RPC input: Unable to read Pair",
			`lockConfig [` + me + `,0]`:           "RPC input: Unable to read Bool",
			`lockConfig [["x","/l",-1],false]`:    "RPC input: malformed client id: ",
			`writeConfig [` + me + `]`:            "RPC input: Unable to read Pair",
			`writeConfig [` + me + `,[]]`:         "RPC input: ",
			`writeConfig [` + me + `,null]`:       "RPC input: ",
			`writeConfigAndUnlock [` + me + `,3]`: "RPC input: ",
			`updateInstance [{}]`:                 "RPC input: key ",
			`addTcpUdpPort [1.5]`:                 "RPC input: ",
			`prepareClusterDestruction []`:        "RPC input: Unable to read 1 tuple",
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
				c.configAnswer("lockConfig", fresh(t))
				require.JSONEq(t, `{"success":true,"result":`+freshText(t)+`}`, c.Answer())
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
			c.configAnswer("lockConfig", fresh(t))
			require.JSONEq(t, `{"success":true,"result":`+freshText(t)+`}`, c.Answer())
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

// The caller of a call is the peer of the connection. A peer that names itself to the lock manager is known to the
// configuration's actor.
func TestTheCaller(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, _ *client) {
		peer := &conntest.Conn{}
		b.Send(b.wconfd, &conn.Opened{Conn: peer, Peer: conn.Peer{PID: 112, UID: 1000, Program: "python3"}})
		b.Settle()
		ask := func(text string) {
			b.Send(peer.Server(), &conn.Received{Frame: []byte(text)})
			b.Settle()
		}
		ask(`{"method": "allocatePort", "args": []}`)
		m := kittest.Expect[*clusterconfig.Call](b.cluster)
		require.Equal(t, reserve.Caller{PID: 112, UID: 1000, Program: "python3"}, m.Caller)
		b.Send(peer.Server(), &clusterconfig.CallResult{Request: m.Request, Result: []byte("11000")})
		b.Settle()
		require.Equal(t, []string{`{"success":true,"result":11000}`}, peer.Answers())
		for range 2 {
			ask(`{"method": "freeLocks", "args": [` + me + `]}`)
			q := kittest.Expect[*locks.Operate](b.locks)
			b.Send(peer.Server(), &locks.OperateResult{Request: q.Request, Value: []any{}})
			b.Settle()
		}
		require.Equal(t, lock.JobOwner(12, "/live/job_000012_1", 112), kittest.Expect[*clusterconfig.Identified](b.cluster).Owner)
		b.cluster.Quiet()
	})
}

// An error of the configuration's actor is the answer, with its class and its details.
func TestErrorsOfTheConfiguration(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("verifyConfig", `[]`)
		c.Tell(&clusterconfig.CallResult{Request: c.configAsked("verifyConfig").Request,
			Error: &calls.Error{Class: "ConfigVerifyError", Text: "Validation failed", Details: []string{"a", "b"}}})
		require.JSONEq(t, `{"success":false,"result":["ConfigVerifyError",["Validation failed",["a","b"]]]}`, c.Answer())
		c.Call("allocatePort", `[]`)
		c.Tell(&clusterconfig.CallResult{Request: c.configAsked("allocatePort").Request, Error: &calls.Error{Class: "ConfigurationError", Text: "no port"}})
		require.JSONEq(t, `{"success":false,"result":["ConfigurationError",["no port"]]}`, c.Answer())
	})
}
