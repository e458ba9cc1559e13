package access

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// Sender is which clients a method serves, beside the role that it needs.
type Sender uint8

// Senders.
const (
	// AnyClient: the role decides.
	AnyClient Sender = iota
	// JobProcess: the program lockstep-job of the daemon's user.
	JobProcess
	// DaemonOnly: the daemon's own console, or the daemon of another node.
	DaemonOnly
)

// senderNames complete "only … may".
var senderNames = [...]string{AnyClient: "a client", JobProcess: "the process of a job", DaemonOnly: "the console of a node"}

// String names the sender for people.
func (s Sender) String() string { return senderNames[s] }

// Need is what a request needs.
type Need struct {
	Role Role
	// Own: a user with Role may give the order for own jobs only, a user with the role Operate for all jobs. The queue decides, which knows
	// whose a job is (Policy.OnlyOf).
	Own  bool
	From Sender
	To   string // completes "to … needs the role admin": "change settings"
}

// methods are all methods of LUXI. They are printed in docs/security.md.
var methods = map[string]Need{
	"Query":                   {Role: Read, To: "ask for items"},
	"QueryFields":             {Role: Read, To: "ask for fields"},
	"QueryJobs":               {Role: Read, To: "list jobs"},
	"QueryFilters":            {Role: Read, To: "list filter rules"},
	"QueryNodes":              {Role: Read, To: "list nodes"},
	"QueryInstances":          {Role: Read, To: "list instances"},
	"QueryGroups":             {Role: Read, To: "list node groups"},
	"QueryNetworks":           {Role: Read, To: "list networks"},
	"QueryExports":            {Role: Read, To: "list exports"},
	"QueryTags":               {Role: Read, To: "list tags"},
	"QueryClusterInfo":        {Role: Read, To: "see the cluster"},
	"QueryConfigValues":       {Role: Read, To: "see the configuration"},
	"WaitForJobChange":        {Role: Read, To: "follow a job"},
	"PickupJob":               {Role: Read, To: "pick up a job"}, // Ganeti's own; it always fails
	"LockstepListJobs":        {Role: Read, To: "list jobs"},
	"LockstepPageJobs":        {Role: Read, To: "list jobs"},
	"LockstepNextJobs":        {Role: Read, To: "list jobs"},
	"LockstepUsage":           {Role: Read, To: "see what jobs have used"},
	"LockstepStatus":          {Role: Read, To: "see the status"},
	"LockstepWhy":             {Role: Read, To: "ask why a job waits"},
	"LockstepPending":         {Role: Read, To: "list waiting jobs"},
	"LockstepOrder":           {Role: Read, To: "ask for the order of jobs"},
	"LockstepEvents":          {Role: Read, To: "follow events"},
	"LockstepAwaitJobs":       {Role: Read, To: "wait for jobs"},
	"LockstepTestFilter":      {Role: Read, To: "test filter rules"},
	"LockstepListFilters":     {Role: Read, To: "list filter rules"},
	"LockstepGetSettings":     {Role: Read, To: "see the settings"},
	"LockstepOpcodes":         {Role: Read, To: "list opcodes"},
	"LockstepConfigShow":      {Role: Read, To: "see the configuration"},
	"LockstepConfigHistory":   {Role: Read, To: "see the configuration"},
	"LockstepConfigCheck":     {Role: Read, To: "check the configuration"},
	"LockstepLocks":           {Role: Read, To: "list locks"},
	"LockstepNodes":           {Role: Read, To: "list nodes"},
	"LockstepDistribution":    {Role: Read, To: "see the distribution"},
	"LockstepLoginLink":       {Role: Read, To: "get a login link"},
	"LockstepWhoAmI":          {Role: None, To: "ask for one's own role"},
	"LockstepSchedules":       {Role: Read, To: "list schedules"},
	"LockstepListGrants":      {Role: Read, To: "list grants"},
	"SubmitJob":               {Role: Submit, To: "submit jobs"},
	"SubmitManyJobs":          {Role: Submit, To: "submit jobs"},
	"LockstepSubmitJobs":      {Role: Submit, To: "submit jobs"},
	"CancelJob":               {Role: Submit, Own: true, To: "cancel jobs"},
	"ChangeJobPriority":       {Role: Submit, Own: true, To: "change priorities"},
	"ArchiveJob":              {Role: Submit, Own: true, To: "archive jobs"},
	"AutoArchiveJobs":         {Role: Submit, Own: true, To: "archive jobs"},
	"LockstepHoldJob":         {Role: Submit, Own: true, To: "hold jobs"},
	"LockstepPutSchedule":     {Role: Submit, Own: true, To: "change schedules"},
	"LockstepOrderSchedule":   {Role: Submit, Own: true, To: "change schedules"},
	"LockstepMayOrder":        {Role: Submit, Own: true, To: "give orders for jobs"},
	"LockstepOrderJobs":       {Role: Submit, Own: true, To: "give orders for jobs"},
	"LockstepAudit":           needsAudit,
	"SubmitJobToDrainedQueue": {Role: Operate, To: "submit jobs to a drained queue"},
	"SetDrainFlag":            {Role: Operate, To: "drain the queue"},
	"SetWatcherPause":         {Role: Operate, To: "pause the watcher"},
	"ReplaceFilter":           {Role: Operate, To: "change filter rules"},
	"LockstepReplaceFilter":   {Role: Operate, To: "change filter rules"},
	"DeleteFilter":            {Role: Operate, To: "delete filter rules"},
	"LockstepSetSettings":     {Role: Admin, To: "change settings"},
	"LockstepReloadOpcodes":   {Role: Admin, To: "reload opcodes"},
	"LockstepConfigAdopt":     {Role: Admin, To: "change the configuration"},
	"LockstepConfigDiscard":   {Role: Admin, To: "change the configuration"},
	"LockstepRotateConfdKey":  {Role: Admin, To: "replace the key of configuration queries"},
	"LockstepNodeCheck":       {Role: Admin, To: "compare the files of nodes"},
	"LockstepNodeRemove":      {Role: Admin, To: "remove nodes"},
	"LockstepNodePromote":     {Role: Admin, To: "promote nodes"},
	"LockstepGrant":           {Role: Admin, To: "grant roles"},
	"LockstepRevoke":          {Role: Admin, To: "revoke roles"},
	"LockstepReportJob":       {From: JobProcess, To: "report on a job"},
	"LockstepBeginOpcode":     {From: JobProcess, To: "begin an opcode"},
	"LockstepRedeemLink":      {From: DaemonOnly, To: "redeem a login link"},
	"LockstepOpenSession":     {From: DaemonOnly, To: "open a session"},
	"LockstepCheckSession":    {From: DaemonOnly, To: "check a session"},
	"LockstepEndSession":      {From: DaemonOnly, To: "end a session"},
}

// Methods are the names of all methods of LUXI, in order.
func Methods() []string { return slices.Sorted(maps.Keys(methods)) }

// MethodNeeds is what a method of LUXI needs. One that is not in the table needs the role admin.
func MethodNeeds(method string) Need {
	if need, known := methods[method]; known {
		return need
	}
	return Need{Role: Admin, To: "call " + method}
}

// Method reports why an identity may not call a method of LUXI with these arguments; nil: it may. The error is a *Refusal. The opcodes of
// a submission are Submission's, and whose a job is decides the queue (OnlyOf). Arguments that are invalid are refused by the method.
func (p Policy) Method(i Identity, method string, args []json.RawMessage) error {
	need := MethodNeeds(method)
	at := map[string]int{"ChangeJobPriority": 1, "LockstepOrderJobs": 2}[method]
	if at > 0 && len(args) == at+1 && (method != "LockstepOrderJobs" || string(args[0]) != `"reschedule"`) {
		if priority, err := strconv.Atoi(string(args[at])); err != nil || priority < 0 {
			need = Need{Role: Operate, To: "give a job priority before those of others"}
		}
	}
	return p.Check(i, need)
}

// WConfD reports why an identity may not call a method of WConfD, which changes locks and the configuration; nil: it may. The error is
// a *Refusal.
func (p Policy) WConfD(i Identity) error {
	return p.Check(i, Need{Role: Admin, To: "use the daemon's socket for locks and configuration"})
}

// Check reports why an identity may not do what has this need; nil: it may. The error is a *Refusal.
func (p Policy) Check(i Identity, need Need) error {
	switch need.From {
	case JobProcess:
		if i.Daemon || i.UID == p.DaemonUID && i.Program == jobProgram {
			return nil
		}
		return &Refusal{What: need.To, Only: need.From, Who: i.String()}
	case DaemonOnly:
		if i.Daemon {
			return nil
		}
		return &Refusal{What: need.To, Only: need.From, Who: i.String()}
	}
	if has := p.Role(i); has < need.Role {
		return &Refusal{What: need.To, Needs: need.Role, Has: has, Who: i.String()}
	}
	return nil
}

// jobProgram is the program of job processes.
const jobProgram = "lockstep-job"

// OnlyOf is the key of the user (Identity.Key) whose jobs alone an identity may change; "": it may change all jobs.
func (p Policy) OnlyOf(i Identity) string {
	if p.Role(i) >= Operate {
		return ""
	}
	return cmp.Or(i.Key(), "nobody")
}
