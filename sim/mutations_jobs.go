package sim

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/sessions"
	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/record"
	"lockstep/messages"
)

// Mutations of what is written and told of jobs and logins.

// recordsNoEnds removes records of ends from writes, and reports a job with an unknown outcome as
// missing.
func recordsNoEnds(_ string, m any) any {
	switch m := m.(type) {
	case *messages.GetJobOutcomeResult:
		return &messages.GetJobOutcomeResult{Id: m.Id, Status: m.Status, Missing: m.Missing || m.Unknown}
	case *messages.AccessStore:
		isRecord := func(f *messages.FileWrite) bool {
			_, is := paths.ParseRecordName(path.Base(f.Path))
			return is
		}
		if !slices.ContainsFunc(m.GetWrite().GetFiles(), isRecord) {
			return m
		}
		m = proto.CloneOf(m)
		m.GetWrite().Files = slices.DeleteFunc(m.GetWrite().Files, isRecord)
		return m
	}
	return m
}

// losesNames removes the records of new jobs from the commits of submissions.
func losesNames(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	isName := func(f *messages.FileWrite) bool { return f.Op == "submit-record" }
	if !is || !slices.ContainsFunc(request.GetWrite().GetFiles(), isName) {
		return m
	}
	request = proto.CloneOf(request)
	request.GetWrite().Files = slices.DeleteFunc(request.GetWrite().Files, isName)
	return request
}

// losesAuthors writes records without the author of a cancel.
func losesAuthors(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	key := []byte(`"canceled_by"`)
	names := func(f *messages.FileWrite) bool { return bytes.Contains(f.Content, key) }
	if !is || !slices.ContainsFunc(request.GetWrite().GetFiles(), names) {
		return m
	}
	request = proto.CloneOf(request)
	for _, f := range request.GetWrite().Files {
		if _, isRecord := paths.ParseRecordName(path.Base(f.Path)); isRecord {
			f.Content = bytes.ReplaceAll(f.Content, key, []byte(`"unknown_key"`))
		}
	}
	return request
}

// losesHolds writes records without their hold.
func losesHolds(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	isHold := func(f *messages.FileWrite) bool { return f.Op == "hold-record" }
	if !is || !slices.ContainsFunc(request.GetWrite().GetFiles(), isHold) {
		return m
	}
	request = proto.CloneOf(request)
	for _, f := range request.GetWrite().Files {
		if r, err := record.Decode(f.Content); isHold(f) && err == nil {
			f.Content = r.WithoutHold().Encode()
		}
	}
	return request
}

// hidesCuts removes the entries about cut output from the job files that the daemon writes.
func hidesCuts(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	cut := func(f *messages.FileWrite) bool {
		return f.Op == "end-job" && bytes.Contains(f.Content, []byte(job.LogCut))
	}
	if !is || !slices.ContainsFunc(request.GetWrite().GetFiles(), cut) {
		return m
	}
	request = proto.CloneOf(request)
	for _, f := range request.GetWrite().Files {
		if j, err := job.Decode(f.Content); cut(f) && err == nil {
			for i := range j.Ops {
				j.Ops[i].Log = slices.DeleteFunc(j.Ops[i].Log, func(e job.LogEntry) bool { return e.Type == job.LogCut })
			}
			f.Content = job.Encode(j)
		}
	}
	return request
}

// hidesRequestNames removes the names that clients give their submissions.
func hidesRequestNames(_ string, m any) any {
	submit, is := m.(*messages.SubmitJobs)
	if !is {
		return m
	}
	submit = proto.CloneOf(submit)
	for _, j := range submit.Jobs {
		for _, op := range j.Ops {
			op.Input = bytes.ReplaceAll(op.Input, []byte(job.SubmissionSource), []byte("somebody"))
		}
	}
	return submit
}

// dropsLateAnswers drops the answer to a client order that reaches the queue after the job's
// end.
func dropsLateAnswers(_ string, m any) any {
	if answered, is := m.(*messages.OrderJobResult); is && strings.Contains(answered.Text, "not found in queue") {
		return nil
	}
	return m
}

// altersRetention gives the queue another value of a setting while it archives old jobs.
func altersRetention(name, value string) func(string, any) any {
	return func(to string, m any) any {
		c, is := m.(*clusterconfig.ConfigPublished)
		if !is || to != "daemon/queue" {
			return m
		}
		if s, err := config.DecodeSettings(c.Settings); err != nil || s.ArchiveAfter(0) == 0 {
			return m
		}
		edited, err := config.EditSettings(c.Settings, map[string][]byte{name: []byte(value)})
		if err != nil {
			panic(err)
		}
		altered := *c
		altered.Settings = edited
		return &altered
	}
}

// hidesArchive makes the gateway read another file than that of an archived job.
func hidesArchive(_ string, m any) any {
	r, is := m.(*messages.AccessStore)
	read := r.GetRead()
	asksForJob := read.GetOp() == "query-job" || read.GetOp() == "wait-job"
	if is && asksForJob && strings.HasPrefix(read.Path, paths.ArchiveDir) {
		hidden := proto.CloneOf(r)
		hidden.GetRead().Path = paths.ArchiveDir + "/none"
		return hidden
	}
	return m
}

// hidesDamage makes a damaged file of one line an empty object. Journals have several lines.
func hidesDamage(_ string, m any) any {
	r, is := m.(*messages.AccessStoreResult)
	content := r.GetRead().GetContent()
	isObjectLine := bytes.HasPrefix(content, []byte("{")) && !bytes.Contains(content, []byte("\n"))
	if is && isObjectLine && !json.Valid(content) {
		hidden := proto.CloneOf(r)
		hidden.GetRead().Content = []byte("{}")
		return hidden
	}
	return m
}

// losesLogouts makes a log-out a look at the session, which stays open.
func losesLogouts(_ string, m any) any {
	if c, is := m.(*sessions.Call); is {
		if end, is := c.Operation.(sessions.End); is {
			return &sessions.Call{Request: c.Request, Operation: sessions.Check(end)}
		}
	}
	return m
}

// answersUnaudited takes the write of an entry of the audit log for one that a power loss may undo.
func answersUnaudited(_ string, m any) any {
	access, is := m.(*messages.AccessStore)
	if !is || !slices.ContainsFunc(access.GetWrite().GetFiles(), func(f *messages.FileWrite) bool { return f.Op == "audit" }) {
		return m
	}
	access = proto.CloneOf(access)
	access.GetWrite().Durable = false
	return access
}

// renewsSessions writes a late time of the last use into the sessions that are read from the disk.
func renewsSessions(_ string, m any) any {
	read, is := m.(*messages.AccessStoreResult)
	if !is || !bytes.Contains(read.GetRead().GetContent(), []byte(`{"sessions":[`)) {
		return m
	}
	read = proto.CloneOf(read)
	read.GetRead().Content = bytes.ReplaceAll(read.GetRead().Content, []byte(`"used":`), []byte(`"used":9`))
	return read
}

// keepsProgress repeats the last progress of a job in reports without any.
func keepsProgress() func(string, any) any {
	last := map[int64]*messages.CommandProgress{}
	return func(_ string, m any) any {
		report, is := m.(*messages.JobProgressed)
		switch {
		case !is:
		case report.Progress != nil:
			last[report.Id] = report.Progress
		case last[report.Id] != nil:
			report = proto.CloneOf(report)
			report.Progress = last[report.Id]
			return report
		}
		return m
	}
}
