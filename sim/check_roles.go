package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

// checkRoles: nothing changes by the request of an account that does not have the role for it, and no account with the role is refused.
// That holds for answers, for jobs and their records, for the grants and for the drain flag. Which role a request needs is in a table of
// this file; which role an account has follows from its groups and from the grants, as far as their clients have answers.
type checkRoles struct {
	grants map[string]*grantState // by role and account or group
	calls  []*judgedCall          // that may still have an effect, or have had one
	owners map[string]*account    // of jobs, by tag
	unread bool                   // the daemon could not read the grants, and may not know them: it reads them again after a pause
}

// userCall is a call of a client with an account.
type userCall struct {
	account *account
	method  string
	args    []any
}

// The events of calls.
type (
	userCalls    struct{ call *userCall }
	userAnswered struct {
		call   *userCall
		result json.RawMessage
		err    error
	}
)

// rank is a role; each has what those before it have.
type rank int

const (
	noRank rank = iota
	mayRead
	maySubmit
	mayOperate
	mayAdmin
	neverMay // only processes of the daemon
)

// ranks are the names of roles in grants.
var ranks = map[string]rank{"read": mayRead, "submit": maySubmit, "operate": mayOperate, "admin": mayAdmin}

// needs are the roles for calls. Orders for jobs and submissions depend on more.
var needs = map[string]rank{
	"QueryJobs": mayRead, "WaitForJobChange": mayRead, "LockstepWhy": mayRead,
	"SubmitJob": maySubmit, "SubmitManyJobs": maySubmit, "LockstepSubmitJobs": maySubmit,
	"CancelJob": maySubmit, "ChangeJobPriority": maySubmit, "LockstepHoldJob": maySubmit, "LockstepOrderJobs": maySubmit,
	"ReplaceFilter": mayOperate, "LockstepReplaceFilter": mayOperate, "DeleteFilter": mayOperate, "SetDrainFlag": mayOperate,
	"LockstepSetSettings": mayAdmin, "LockstepGrant": mayAdmin, "LockstepRevoke": mayAdmin,
	"LockstepOpenSession": neverMay, "LockstepReportJob": neverMay, "LockstepBeginOpcode": neverMay,
}

// judgedCall is a call with the least and the most that it may need, and the least and the most that its account may have had since it
// was sent.
type judgedCall struct {
	*userCall
	needLeast, needMost rank
	hasLeast, hasMost   rank
	jobs                []int64  // that an order is about
	jobNeeds            []rank   // the least that it needs for each of them
	tags                []string // of the jobs of a submission
	answered            bool
}

func (j *judgedCall) mayHaveEffect() bool { return j.needLeast <= j.hasMost }

// mayOrder reports whether an order for a job may have an effect.
func (j *judgedCall) mayOrder(id int64) bool {
	at := slices.Index(j.jobs, id)
	return at >= 0 && j.jobNeeds[at] <= j.hasMost
}

// grantState is what is known of a grant.
type grantState struct {
	role       rank
	who        string
	known      bool // it is in force, or it is not; of no meaning while unsure
	unsure     bool
	least      bool // it is in force
	most       bool // it may be in force
	open       int  // calls about it without an answer
	overlapped bool // the last of them was sent while another was at work
	lost       bool // a call about it has no answer: it may take effect at any time
}

func (*checkRoles) Name() string { return "roles" }

func (c *checkRoles) See(w *World, event any) error {
	if w.users == nil {
		return nil
	}
	if c.grants == nil {
		c.grants, c.owners = map[string]*grantState{}, map[string]*account{}
	}
	switch e := event.(type) {
	case submissionSent:
		for i := range e.submission.jobs {
			c.owners[e.submission.tag(i)] = e.submission.account()
		}
	case userCalls:
		c.sent(w, e.call)
	case userAnswered:
		return c.answered(e)
	case deciderStarted:
		c.unread = false
	case diskFailed:
		if e.path == paths.AccessPath {
			c.unread = true
			c.rolesChanged()
		}
	case fileChanged:
		if e.job != nil {
			return c.jobExists(e)
		}
	case otherFileChanged:
		if e.disk == w.disk && e.call != simdisk.CallSync {
			return c.fileChanged(w, e.path)
		}
	}
	return nil
}

func (c *checkRoles) sent(w *World, call *userCall) {
	j := &judgedCall{userCall: call, hasLeast: mayAdmin}
	c.need(w, j)
	if role, who, is := grantOf(call); is {
		g := c.grant(role, who)
		g.overlapped = g.open > 0
		g.unsure = g.unsure || g.overlapped
		g.open++
		g.most, g.least = g.most || call.method == "LockstepGrant", g.least && call.method == "LockstepGrant"
	}
	c.calls = append(c.calls, j)
	c.rolesChanged()
}

// need sets what a call needs.
func (c *checkRoles) need(w *World, j *judgedCall) {
	j.needLeast = needs[j.method]
	j.needMost = j.needLeast
	text, err := json.Marshal(j.args)
	if err != nil {
		panic(err)
	}
	switch j.method {
	case "SubmitJob", "SubmitManyJobs", "LockstepSubmitJobs":
		j.needLeast = submissionNeed(text, j)
		j.needMost = j.needLeast
	case "CancelJob", "ChangeJobPriority", "LockstepHoldJob", "LockstepOrderJobs":
		var args []json.RawMessage
		mustDecode(text, &args)
		c.orderNeed(w, j, args)
	}
}

// submissionNeed is what a submission needs, by the text of its arguments. It notes the tags of the jobs.
func submissionNeed(args []byte, j *judgedCall) rank {
	need := maySubmit
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, each := range v {
				visit(each)
			}
		case map[string]any:
			if id, is := v["OP_ID"].(string); is {
				tag, _ := v["comment"].(string)
				j.tags = append(j.tags, tag)
				need = max(need, opcodeNeed(id, v))
				return
			}
			if v["as"] != nil {
				need = mayAdmin
			}
			visit(v["ops"])
		}
	}
	var all any
	mustDecode(args, &all)
	visit(all)
	return need
}

func opcodeNeed(id string, op map[string]any) rank {
	if id != "OP_RUN_COMMAND" {
		return mayAdmin
	}
	if priority, _ := op["priority"].(float64); priority < 0 {
		return mayOperate
	}
	locks, _ := op["locks"].([]any)
	for _, l := range locks {
		pair, _ := l.([]any)
		name, _ := pair[0].(string)
		if pair[1] == "exclusive" && (name == "cluster/BGL" || strings.HasSuffix(name, "/[lockset]")) {
			return mayOperate
		}
	}
	return maySubmit
}

// orderNeed sets what an order for jobs needs: for those of others the role operate.
func (c *checkRoles) orderNeed(w *World, j *judgedCall, args []json.RawMessage) {
	kind, priority := "", 0
	switch j.method {
	case "LockstepOrderJobs":
		mustDecode(args[0], &kind)
		mustDecode(args[1], &j.jobs)
		if kind == "priority" {
			mustDecode(args[2], &priority)
		}
	default:
		j.jobs = make([]int64, 1)
		mustDecode(args[0], &j.jobs[0])
		if j.method == "ChangeJobPriority" {
			mustDecode(args[1], &priority)
		}
	}
	least := maySubmit
	if priority < 0 {
		least, j.needLeast = mayOperate, mayOperate
	}
	j.needMost = mayOperate // of others' jobs, unknown ones, and own ones that an operator holds
	if j.method != "LockstepHoldJob" && !slices.ContainsFunc(j.jobs, func(id int64) bool { return c.owners[w.tagOf(id)] != j.account }) {
		j.needMost = least
	}
	for _, id := range j.jobs {
		need := least
		if owner, known := c.owners[w.tagOf(id)]; known && owner != j.account {
			need = mayOperate
		}
		j.jobNeeds = append(j.jobNeeds, need)
	}
}

// grantOf is the grant that a call is about.
func grantOf(call *userCall) (role, who string, is bool) {
	if call.method != "LockstepGrant" && call.method != "LockstepRevoke" {
		return "", "", false
	}
	return call.args[0].(string), call.args[1].(string), true
}

func (c *checkRoles) grant(role, who string) *grantState {
	g := c.grants[role+" "+who]
	if g == nil {
		g = &grantState{role: ranks[role], who: who}
		c.grants[role+" "+who] = g
	}
	return g
}

// rolesOf are the least and the most that an account may have now.
func (c *checkRoles) rolesOf(a *account) (least, most rank) {
	if a == daemonAccount {
		return mayAdmin, mayAdmin
	}
	if slices.Contains(a.gids, socketGID) {
		least, most = maySubmit, maySubmit
	}
	for _, g := range c.grants { // the order does not matter
		kind, name, _ := strings.Cut(g.who, ":")
		switch {
		case kind == "user" && name == a.name, kind == "group" && slices.Contains(a.groups, name), kind == "uid" && name == fmt.Sprint(a.uid):
			if g.least && !c.unread {
				least = max(least, g.role)
			}
			if g.most {
				most = max(most, g.role)
			}
		}
	}
	return least, most
}

// rolesChanged notes for all calls at work what their accounts may have.
func (c *checkRoles) rolesChanged() {
	for _, j := range c.calls {
		if !j.answered {
			least, most := c.rolesOf(j.account)
			j.hasLeast, j.hasMost = min(j.hasLeast, least), max(j.hasMost, most)
		}
	}
}

// answered judges the answer to a call. Without an answer the call may still be at work.
func (c *checkRoles) answered(e userAnswered) error {
	at := slices.IndexFunc(c.calls, func(j *judgedCall) bool { return j.userCall == e.call })
	j := c.calls[at]
	var err error
	refused := isRefusal(e.err)
	switch {
	case e.err == nil && !j.permits(e.result):
		err = fmt.Errorf("%s has made the call %s %v, without the role for it: %s", j.account.name, j.method, j.args, e.result)
	case refused && j.needMost <= j.hasLeast:
		err = fmt.Errorf("%s has the role for %s %v, and was refused: %w", j.account.name, j.method, j.args, e.err)
	}
	j.answered = e.err == nil || refused
	if role, who, is := grantOf(e.call); is {
		c.grant(role, who).answered(e.call.method == "LockstepGrant", e.err == nil, refused)
		c.rolesChanged()
	}
	return err
}

// answered notes the end of a call about the grant.
func (g *grantState) answered(given, done, refused bool) {
	g.open--
	g.lost = g.lost || !done && !refused
	if done {
		g.known, g.unsure = given, g.overlapped
	}
	if g.open == 0 && !g.unsure && !g.lost {
		g.least, g.most = g.known, g.known
	} else {
		g.least, g.most = false, true
	}
}

// permits reports whether the account may have got this result. An order for a job that has ended, or that does not exist, is not refused.
func (j *judgedCall) permits(result json.RawMessage) bool {
	if !j.mayHaveEffect() {
		return false
	}
	var answers [][]any
	switch j.method {
	case "CancelJob", "ChangeJobPriority", "LockstepHoldJob":
		answers = make([][]any, 1)
		mustDecode(result, &answers[0])
	case "LockstepOrderJobs":
		mustDecode(result, &answers)
	}
	for i, a := range answers {
		if text, _ := a[1].(string); j.jobNeeds[i] > j.hasMost && !strings.Contains(text, "not found in queue") {
			return false
		}
	}
	return true
}

// jobExists checks that a job on the disk was submitted by a call that may have an effect.
func (c *checkRoles) jobExists(e fileChanged) error {
	for _, j := range c.calls {
		if slices.Contains(j.tags, e.tag) && !j.mayHaveEffect() {
			return fmt.Errorf("job %d exists, and %s did not have the role to submit it", e.id, j.account.name)
		}
	}
	return nil
}

// fileChanged checks what a file says of changes that need a role.
func (c *checkRoles) fileChanged(w *World, path string) error {
	f := w.disk.Find(path)
	switch base := path[strings.LastIndex(path, "/")+1:]; {
	case f == nil:
	case path == paths.AccessPath:
		return c.grantsWritten(f.Data)
	case path == paths.DrainPath:
		if !slices.ContainsFunc(c.calls, func(j *judgedCall) bool { return j.method == "SetDrainFlag" && j.mayHaveEffect() }) {
			return fmt.Errorf("the queue is drained, and no call for it had the role")
		}
	default:
		if id, is := paths.ParseRecordName(base); is {
			return c.orderRecorded(id, f.Data)
		}
	}
	return nil
}

func (c *checkRoles) grantsWritten(content []byte) error {
	var file struct {
		Grants []struct{ Role, Who string }
	}
	if err := json.Unmarshal(content, &file); err != nil {
		return fmt.Errorf("%s: %w", paths.AccessPath, err)
	}
	for _, g := range file.Grants {
		may := slices.ContainsFunc(c.calls, func(j *judgedCall) bool {
			role, who, is := grantOf(j.userCall)
			return is && j.method == "LockstepGrant" && role == g.Role && who == g.Who && j.mayHaveEffect()
		})
		if !may {
			return fmt.Errorf("%s has the role %s, and no call for that had the role", g.Who, g.Role)
		}
	}
	return nil
}

// orderRecorded checks that whoever a record names has given an order for the job that may have an effect. A schedule ends its own jobs.
func (c *checkRoles) orderRecorded(id int64, content []byte) error {
	var r struct {
		CanceledBy string `json:"canceled_by"`
		Hold       struct{ By string }
	}
	if err := json.Unmarshal(content, &r); err != nil {
		return fmt.Errorf("record of job %d: %w", id, err)
	}
	for _, by := range []string{r.CanceledBy, r.Hold.By} {
		if due := scheduledDueIn(content); due.Name != "" && by == scheduleTag+due.Name {
			continue
		}
		a := accountOf(by)
		may := func(j *judgedCall) bool { return j.account == a && j.mayOrder(id) && j.mayHaveEffect() }
		if by != "" && (a == nil || !slices.ContainsFunc(c.calls, may)) {
			return fmt.Errorf("the record of job %d has an order of %s, who had no role for one", id, by)
		}
	}
	return nil
}

// watched is done for the call. It tells the checkers of calls of clients with an account, in a run in which accounts differ.
func (c *rpcClient) watched(method string, args []any, done func(json.RawMessage, error)) func(json.RawMessage, error) {
	atStandby := c.conn.daemon.tree == nil && !c.forwarded
	if _, known := needs[method]; !known || c.world.users == nil || c.account == nil || c.console || c.wconf || atStandby {
		return done
	}
	call := &userCall{c.account, method, args}
	c.world.notify(userCalls{call})
	return func(result json.RawMessage, err error) {
		c.world.notify(userAnswered{call, result, err})
		done(result, err)
	}
}
