package sim

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/config/configstore"
	"lockstep/actors/locks"
	"lockstep/core/config/calls"
	"lockstep/core/filter"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/messages"
	"lockstep/sim/simdisk"
)

// configMutations are the mutations of the way of the configuration.
var configMutations = []Mutation{
	{"unsynced-journal", "a change of the configuration is answered before its record is synced",
		Mutations{Disk: simdisk.Mutations{SkipAppendSync: true}}},
	{"journal-of-boot", "the journal of the configuration is discarded after a boot", Mutations{DropsJournal: true}},
	{"greedy-fold", "a fold removes the whole journal, with the records that were appended meanwhile", Mutations{Alter: removesJournal}},
	{"kept-refusals", "a record whose append has failed stays in the journal of the configuration",
		Mutations{Disk: simdisk.Mutations{KeepsFailedAppends: true}}},
	{"no-rollback", "after a failed append the configuration in memory keeps the changes, whose calls fail",
		Mutations{NewAlter: forgetsRollback}},
	{"kept-reservations", "the reservations of dead owners are kept",
		Mutations{Alter: drops("daemon/core/clusterconfig", &clusterconfig.CallerDied{})}},
	{"hasty-lock-read", "the holder of the configuration lock gets a configuration without the changes under way",
		Mutations{Alter: onlyAnswers("lockConfig")}},
	{"ignored-lock", "calls that take the configuration lock do not wait for its holder", Mutations{NewAlter: ignoresLock}},
	{"lost-pools", "addresses that are committed beside the holder of the configuration lock are lost in what the holder writes",
		Mutations{NewAlter: forgetsPools}},
	{"unmade-primary", "setInstancePrimaryNode is answered and not made", Mutations{Alter: onlyAnswers("setInstancePrimaryNode")}},
	{"unmade-attach", "attachInstanceDisk is answered and not made", Mutations{Alter: onlyAnswers("attachInstanceDisk")}},
	{"unmade-detach", "detachInstanceDisk is answered and not made", Mutations{Alter: onlyAnswers("detachInstanceDisk")}},
	{"unmade-disk-update", "updateDisk is answered and not made", Mutations{Alter: onlyAnswers("updateDisk")}},
	{"unmade-network-update", "updateNetwork is answered and not made", Mutations{Alter: onlyAnswers("updateNetwork")}},
	{"kept-addresses", "releaseIp is answered and not made", Mutations{Alter: onlyAnswers("releaseIp")}},
	{"ignored-shared-lock", "calls that take the configuration lock do not wait for its shared holders",
		Mutations{NewAlter: ignoresSharedLock}},
	{"free-destruction", "prepareClusterDestruction takes the big lock for granted", Mutations{NewAlter: destroysFreely}},
	{"stale-ssconf", "the writer of the ssconf files learns of no change", Mutations{NewAlter: dropsPublished(true)}},
	{"stale-confd", "the server of queries learns of no change of the configuration", Mutations{NewAlter: dropsPublished(false)}},
	{"early-ssconf", "ssconf files are written before the change is on the disk", Mutations{NewAlter: publishesEarly}},
	{"mixed-ssconf", "the names of the instances are not in the set of ssconf files that a start writes", Mutations{Alter: mixesSsconf}},
	{"older-ssconf", "the writer of the ssconf files gets an old configuration after a new one", Mutations{NewAlter: repeatsSsconf}},
	{"lost-own-rules", "a fold does not write the filter rules that config.data cannot have", Mutations{Alter: losesOwnRules}},
	{"endless-rules", "the filter engine sees the ends of rules a year too late", Mutations{Alter: delaysEnds}},
	{"shared-reservations", "the daemon forgets the reservations when it starts", Mutations{Disk: simdisk.Mutations{Loses: "config-tempres"}}},
}

// losesOwnRules removes the rules from config.extra.
func losesOwnRules(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	if !is {
		return m
	}
	for i, f := range request.GetWrite().GetFiles() {
		if at := bytes.Index(f.Content, []byte(`,"rules":{`)); f.Path == paths.ConfigExtraPath && at >= 0 {
			request = proto.CloneOf(request)
			request.GetWrite().Files[i].Content = append(bytes.Clone(f.Content[:at]), "}\n"...)
		}
	}
	return request
}

// delaysEnds gives the filter engine rules whose ends come later.
func delaysEnds(to string, m any) any {
	c, is := m.(*clusterconfig.ConfigPublished)
	if !is || !strings.HasSuffix(to, "/filters") {
		return m
	}
	delayed := *c
	for uuid, text := range c.Rules.All() {
		rule, err := filter.Decode(text)
		if err != nil || rule.Until == 0 {
			continue
		}
		rule.Until += 10_000 * time.Hour.Nanoseconds()
		if delayed.Rules, err = delayed.Rules.Put(uuid, filter.Encode(&rule)); err != nil {
			panic(err)
		}
	}
	return &delayed
}

// removesJournal removes the journal where it is replaced by the records that are not folded.
func removesJournal(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	if !is || len(request.GetWrite().GetFiles()) != 1 || request.GetWrite().Files[0].Path != paths.ConfigJournalPath {
		return m
	}
	request = proto.CloneOf(request)
	request.What = &messages.AccessStore_Remove{Remove: &messages.RemoveFiles{Op: "config-journal", Paths: []string{paths.ConfigJournalPath}}}
	return request
}

// forgetsRollback reports failed appends to the configuration's actor as done, and as failed to the clients of the calls. So the actor
// does not undo the changes.
func forgetsRollback() func(string, any) any {
	sizes, failing := map[uint64]int{}, 0
	var why *messages.Failure
	return func(_ string, m any) any {
		switch m := m.(type) {
		case *configstore.AddRecords:
			sizes[m.Request] = len(m.Records)
		case *configstore.AddRecordsResult:
			if m.Failure != nil && !m.Refused {
				failing, why = failing+sizes[m.Request], m.Failure
				return &configstore.AddRecordsResult{Request: m.Request}
			}
		case *clusterconfig.CallResult:
			if failing > 0 && m.Error == nil && m.Snapshot == nil {
				failing--
				return &clusterconfig.CallResult{Request: m.Request, Error: &calls.Error{Class: why.Class, Text: why.Text}}
			}
		}
		return m
	}
}

// ignoresLock hides the holder of the configuration lock from calls that take the lock.
func ignoresLock() func(string, any) any {
	known := &locks.ConfigLocks{}
	return func(_ string, m any) any {
		switch m := m.(type) {
		case *locks.ConfigLocks:
			known = m
		case *clusterconfig.Call:
			if m.Call.TakesLock() && len(known.Config) > 0 {
				return several{&locks.ConfigLocks{BGL: known.BGL}, m, known}
			}
		}
		return m
	}
}

// ignoresSharedLock hides shared holders of the configuration lock from calls that take the lock, and shows them again afterwards.
func ignoresSharedLock() func(string, any) any {
	known := &locks.ConfigLocks{}
	return func(_ string, m any) any {
		switch m := m.(type) {
		case *locks.ConfigLocks:
			known = m
		case *clusterconfig.Call:
			hidden := &locks.ConfigLocks{Config: maps.Clone(known.Config), BGL: known.BGL}
			maps.DeleteFunc(hidden.Config, func(_ lock.Owner, mode lock.Mode) bool { return mode == lock.Shared })
			if m.Call.TakesLock() && len(hidden.Config) < len(known.Config) {
				return several{hidden, m, known}
			}
		}
		return m
	}
}

// onlyAnswers makes a read in place of a call of a method, which is then answered without an effect.
func onlyAnswers(method string) func(string, any) any {
	return func(_ string, m any) any {
		call, is := m.(*clusterconfig.Call)
		if !is || call.Call.Method != method {
			return m
		}
		read, err := calls.Parse("readConfig", nil)
		if err != nil {
			panic(err)
		}
		return &clusterconfig.Call{Request: call.Request, Call: read, Caller: call.Caller}
	}
}

// destroysFreely names the caller of prepareClusterDestruction as the holder of the big lock.
func destroysFreely() func(string, any) any {
	known := &locks.ConfigLocks{}
	return func(_ string, m any) any {
		switch m := m.(type) {
		case *locks.ConfigLocks:
			known = m
		case *clusterconfig.Call:
			if m.Call.Method == "prepareClusterDestruction" {
				return several{&locks.ConfigLocks{Config: known.Config, BGL: m.Call.Owner}, m, known}
			}
		}
		return m
	}
}

// forgetsPools makes calls for addresses in the name of the holder of the configuration lock. So they are not recorded as concurrent
// changes.
func forgetsPools() func(string, any) any {
	var holder lock.Owner
	return func(_ string, m any) any {
		switch m := m.(type) {
		case *locks.ConfigLocks:
			holder = lock.Owner{}
			for o := range m.Config { // an exclusive holder is the only one
				holder = o
			}
		case *clusterconfig.Call:
			if strings.HasPrefix(m.Call.Method, "commit") && holder != (lock.Owner{}) {
				call := *m
				call.Call.Owner = holder
				return &call
			}
		}
		return m
	}
}

// writesSsconf reports whether an actor is the writer of the ssconf files of its node.
func writesSsconf(actor string) bool { return strings.HasSuffix(actor, "/ssconf") }

// dropsPublished drops all configurations but the first to the writer of the ssconf files, or to the other subscribers.
func dropsPublished(toSsconf bool) func() func(string, any) any {
	return func() func(string, any) any {
		first := true
		return func(to string, m any) any {
			if _, is := m.(*configstore.CopyPublished); is && writesSsconf(to) == toSsconf {
				if !first {
					return nil
				}
				first = false
			}
			return m
		}
	}
}

// publishesEarly gives the writer of ssconf files the result of a change before the change is on the disk.
func publishesEarly() func(string, any) any {
	var latest *configstore.AddRecords
	return func(to string, m any) any {
		switch m := m.(type) {
		case *configstore.AddRecords:
			latest = m
		case *configstore.CopyPublished:
			if latest != nil && writesSsconf(to) {
				for _, r := range slices.Backward(latest.Records) {
					if r.After != nil {
						return &configstore.CopyPublished{Config: r.After}
					}
				}
			}
		}
		return m
	}
}

// mixesSsconf removes the file of the instances from each write of several ssconf files.
func mixesSsconf(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	if !is {
		return m
	}
	files := request.GetWrite().GetFiles()
	if len(files) < 2 || !strings.HasPrefix(files[0].Path, paths.SsconfPrefix) {
		return m
	}
	request = proto.CloneOf(request)
	write := request.GetWrite()
	write.Files = slices.DeleteFunc(write.Files, func(f *messages.FileWrite) bool { return f.Path == paths.SsconfPrefix+"instance_list" })
	return request
}

// repeatsSsconf gives the writer of the ssconf files its first configuration again after every third one.
func repeatsSsconf() func(string, any) any {
	var first *configstore.CopyPublished
	count := 0
	return func(to string, m any) any {
		p, is := m.(*configstore.CopyPublished)
		if !is || !writesSsconf(to) {
			return m
		}
		if first == nil {
			first = p
		}
		if count++; count%3 == 0 {
			return several{p, first}
		}
		return p
	}
}
