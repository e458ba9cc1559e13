package replicator_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/messages"
)

func TestAWriteIsAnsweredWhenAMajorityHasItAndTheDisk(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		request := b.write("queue/job-7", "v1")
		offers := b.log.take()
		require.Len(t, offers, 1)
		require.Equal(t, []string{"queue/job-7"}, filePaths(offers[0].entry))
		require.Equal(t, self.Node, offers[0].entry.Origin)
		require.Equal(t, self.Incarnation, offers[0].entry.Incarnation)
		require.Empty(t, b.content("queue/job-7"), "no other node has it")
		b.client.Quiet()

		block := b.disk.Block("replace apply queue/job-7")
		b.log.commit(offers[0].entry)
		block.Entered()
		b.client.Quiet()
		block.Release()
		b.written(request)
		require.Equal(t, "v1", b.content("queue/job-7"))
	})
}

func TestProposalsKeepTheirOrder(t *testing.T) {
	onMaster(t, map[string]string{"queue/job-6": "v6"}, func(t *testing.T, b *bench) {
		one, two := b.write("queue/job-7", "v1"), b.write(paths.SerialPath, "10\n")
		three, four := b.move("queue/job-6", "queue/archive/0/job-6"), b.remove(paths.DrainPath)
		offers := b.log.take()
		require.Len(t, offers, 4)
		for i, want := range []string{"queue/job-7", "queue/serial", "queue/job-6 to queue/archive/0/job-6", "remove queue/drain"} {
			require.Equal(t, []string{want}, filePaths(offers[i].entry))
			if i > 0 {
				require.Greater(t, offers[i].number, offers[i-1].number)
			}
			b.log.commit(offers[i].entry)
		}
		b.written(one)
		b.written(two)
		b.written(three)
		b.written(four)
		require.Equal(t, "v6", b.content("queue/archive/0/job-6"))
		require.Equal(t, "v1", b.content("queue/job-7"))
	})
}

func TestALargeRequestIsSplitAndAnsweredWhole(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		large := bytes.Repeat([]byte("x"), 600<<10)
		request := b.writeAll(&messages.FileWrite{Path: "queue/job-1", Content: large}, &messages.FileWrite{Path: "queue/job-2", Content: large},
			&messages.FileWrite{Path: "queue/job-3", Content: []byte("small")})
		offers := b.log.take()
		require.Len(t, offers, 1, "the last part waits for the others")
		require.Equal(t, []string{"queue/job-1"}, filePaths(offers[0].entry))
		b.log.commit(offers[0].entry)
		b.client.Quiet()
		offers = b.log.take()
		require.Len(t, offers, 1)
		require.Equal(t, []string{"queue/job-2", "queue/job-3"}, filePaths(offers[0].entry))
		b.log.commit(offers[0].entry)
		b.written(request)
	})
}

// submitLarge is a submission of three jobs that becomes three parts of a request. The
// last part has the serial, which is the commit record.
func (b *bench) submitLarge() (request uint64) {
	large := bytes.Repeat([]byte("x"), 600<<10)
	write := &messages.WriteFiles{Durable: true, Logged: true, CommitRecord: &messages.FileWrite{Op: "serial", Path: paths.SerialPath, Content: []byte("12\n")}}
	for _, name := range []string{"queue/job-10", "queue/job-11", "queue/job-12"} {
		write.Files = append(write.Files, &messages.FileWrite{Op: "submit-job", Path: name, Content: large})
	}
	return b.ask(&messages.AccessStore{What: &messages.AccessStore_Write{Write: write}})
}

// Whichever part the log refuses, and however often, the last part, with the serial, is
// committed last.
func TestTheLastPartOfARequestComesLastThoughTheLogRefusesOne(t *testing.T) {
	for refused := range 3 {
		onMaster(t, nil, func(t *testing.T, b *bench) {
			var order []string
			// commit gives a majority one part, after some refusals of the part that is to be
			// refused.
			commit := func(part int, offers ...offer) {
				for tries := 0; part == refused && tries < 3; tries++ {
					b.Send(b.replicator, &messages.LogRefused{Number: offers[0].number, Failure: noMajority})
					require.Empty(t, b.log.take())
					b.Advance(time.Second)
					offers = b.log.take()
					require.Len(t, offers, 1, "that part alone is offered again")
				}
				order = append(order, filePaths(offers[0].entry)...)
				b.client.Quiet()
				b.log.commit(offers[0].entry)
			}
			request := b.submitLarge()
			offers := b.log.take()
			require.Len(t, offers, 2, "all parts but the last")
			first, second := 0, 1
			if refused == 0 {
				first, second = 1, 0
			}
			commit(first, offers[first])
			require.Empty(t, b.log.take(), "the last part waits for both")
			commit(second, offers[second])
			offers = b.log.take()
			require.Len(t, offers, 1)
			commit(2, offers[0])
			b.written(request)
			require.ElementsMatch(t, []string{"queue/job-10", "queue/job-11"}, order[:2])
			require.Equal(t, []string{"queue/job-12", "queue/serial"}, order[2:])
		})
	}
}

// A part that the log never accepts fails the last part of its request, which is not
// offered.
func TestARequestOfWhichAPartIsNeverTakenFails(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		request := b.submitLarge()
		offers := b.log.take()
		b.log.commit(offers[0].entry)
		second := offers[1]
		next := b.write(paths.SerialPath, "9\n")
		for range 101 {
			require.Empty(t, b.log.take(), "it waits, for the serial is in what came before")
			b.Send(b.replicator, &messages.LogRefused{Number: second.number, Failure: noMajority})
			b.Advance(time.Second)
			if offers := b.log.take(); len(offers) == 1 && offers[0].number != second.number {
				require.Equal(t, []string{"queue/serial"}, filePaths(offers[0].entry))
				b.log.commit(offers[0].entry)
			}
		}
		var failed []string
		for _, f := range b.answer(request).GetFiles().GetFailures() {
			failed = append(failed, f.Path)
		}
		require.Equal(t, []string{"queue/job-11", "queue/job-12", "queue/serial"}, failed)
		b.written(next)
		require.Equal(t, "9\n", b.content(paths.SerialPath))
		b.agreeOn("queue/job-13")
	})
}

// agreeOn checks that later requests are committed.
func (b *bench) agreeOn(file string) {
	b.Helper()
	request := b.write(file, "v1")
	b.log.agree()
	b.written(request)
}

// A report of a job process is older than a later write of the daemon. It must not be
// committed after that write when the log has refused it once.
func TestAnObservationThatWasRefusedStaysBeforeALaterWrite(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.begin()
		b.observe(0, jobIn(7, job.Running))
		offers := b.log.take()
		require.Len(t, offers, 1)
		end := b.write("queue/job-7", jobIn(7, job.Error))
		require.Empty(t, b.log.take())
		b.Send(b.replicator, &messages.LogRefused{Number: offers[0].number, Failure: noMajority})
		b.Advance(time.Second)
		b.log.agree()
		b.written(end)
		require.Equal(t, jobIn(7, job.Error), b.log.last("queue/job-7"), "what the other nodes are left with")
		b.agreeOn("queue/job-8")
	})
}

func TestWhatOnlyThisNodeKnowsBypassesTheLog(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.written(b.write(paths.LocksPath, "locks"))
		b.written(b.ask(&messages.AccessStore{What: &messages.AccessStore_Append{
			Append: &messages.AppendFile{Op: "test", Path: paths.LocksJournalPath, Content: []byte("line")}}}))
		require.Equal(t, "line", b.content(paths.LocksJournalPath))
		b.written(b.move(paths.LocksPath, "elsewhere"))
		require.Equal(t, "locks", b.content("elsewhere"))
		b.written(b.remove("elsewhere"))
		require.NotContains(t, b.disk.Names(), "elsewhere")
		require.Empty(t, b.log.take())
	})
}

func TestReadsWaitForWhatTheyMustSee(t *testing.T) {
	onMaster(t, map[string]string{"queue/job-8": "eight"}, func(t *testing.T, b *bench) {
		write := b.write("queue/job-7", "v1")
		same := b.read("queue/job-7")
		b.client.Quiet()
		require.Equal(t, "eight", string(b.answer(b.read("queue/job-8")).GetRead().Content), "it has nothing to do with the write")
		scan := b.ask(&messages.AccessStore{What: &messages.AccessStore_Scan{Scan: &messages.ScanQueue{}}})
		list := b.ask(&messages.AccessStore{What: &messages.AccessStore_List{List: &messages.ListDir{Op: "test", Dir: paths.QueueDir}}})
		b.client.Quiet()

		b.log.agree()
		b.written(write)
		answers := map[uint64]*messages.AccessStoreResult{}
		for range 3 {
			a := kittest.Expect[*messages.AccessStoreResult](b.client)
			answers[a.Request] = a
		}
		require.Equal(t, "v1", string(answers[same].GetRead().Content))
		require.Contains(t, answers[list].GetList().Names, "job-7")
		require.NotNil(t, answers[scan].GetScan())
	})
}

// A read waits for every change of its file, and for both names of a renamed file.
func TestReadsWaitForRenames(t *testing.T) {
	onMaster(t, map[string]string{"queue/job-7": "v1"}, func(t *testing.T, b *bench) {
		move := b.move("queue/job-7", "queue/archive/0/job-7")
		before, after := b.read("queue/job-7"), b.read("queue/archive/0/job-7")
		b.client.Quiet()
		b.log.agree()
		b.written(move)
		answers := map[uint64]*messages.AccessStoreResult{}
		for range 2 {
			a := kittest.Expect[*messages.AccessStoreResult](b.client)
			answers[a.Request] = a
		}
		require.True(t, answers[before].GetRead().Missing)
		require.Equal(t, "v1", string(answers[after].GetRead().Content))
	})
}

func TestWhatCertainlyFailedIsOfferedAgain(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		request := b.write("queue/job-7", "v1")
		first := b.log.take()[0]
		b.Send(b.replicator, &messages.LogRefused{Number: first.number, Failure: noMajority})
		require.Empty(t, b.log.take(), "not at once")
		b.Advance(time.Second)
		again := b.log.take()
		require.Len(t, again, 1)
		require.Equal(t, first.number, again[0].number)
		require.Equal(t, first.entry.Marshal(), again[0].entry.Marshal())
		b.client.Quiet()
		b.log.commit(again[0].entry)
		b.written(request)
	})
}

var noMajority = messages.GenericFailure("no majority")

func TestOfWhatNobodyKnowsTheOutcomeNothingIsSaid(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.write("queue/job-7", "v1")
		lost := b.log.take()[0]
		b.Send(b.replicator, &messages.LogRefused{Number: lost.number, Unknown: true, Failure: noMajority})
		b.Advance(time.Minute)
		require.Empty(t, b.log.take())
		b.client.Quiet()
		b.log.lead("n2")
		b.log.commit(lost.entry) // it was committed all the same
		b.client.Quiet()
		b.Advance(collected)
		require.Equal(t, "v1", b.content("queue/job-7"))
	})
}

func TestALostMastershipDropsEverything(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.write("queue/job-7", "v1")
		b.read("queue/job-7")
		offer := b.log.take()[0]
		b.Send(b.replicator, &messages.LogRefused{Number: offer.number, Failure: noMajority})
		b.log.lead("n2")
		kittest.Expect[*messages.ResignMaster](b.master)
		b.Advance(time.Minute)
		require.Empty(t, b.log.take(), "what was refused is not offered by one who follows")
		b.write("queue/job-8", "v1")
		b.client.Quiet()
		require.Empty(t, b.log.take())
		b.client.Ask(b.replicator, &messages.AnnounceStore{})
		b.client.Quiet()

		former := b.epoch
		b.become()
		require.Greater(t, b.epoch, former)
		b.client.Ask(b.replicator, &messages.AnnounceStore{})
		require.Equal(t, b.epoch, kittest.Expect[*messages.StoreStarted](b.client).Incarnation)
		now := b.epoch
		b.epoch = former
		b.write("queue/job-9", "v1")
		require.Empty(t, b.log.take(), "it was meant for a former one")
		b.epoch = now
		request := b.write("queue/job-9", "v1")
		b.log.agree()
		b.written(request)
	})
}

func TestAQuarantinedFileIsRenamedEverywhere(t *testing.T) {
	onMaster(t, map[string]string{"queue/job-7": "bad", "queue/quarantine/job-7": "older"}, func(t *testing.T, b *bench) {
		request := b.ask(&messages.AccessStore{What: &messages.AccessStore_Quarantine{Quarantine: &messages.QuarantineFile{Path: "queue/job-7"}}})
		offers := b.log.take()
		require.Equal(t, []string{"queue/job-7 to queue/quarantine/job-7.1"}, filePaths(offers[0].entry))
		b.client.Quiet()
		b.log.commit(offers[0].entry)
		q := b.answer(request).GetQuarantine()
		require.Nil(t, q.Failure)
		require.Equal(t, "queue/quarantine/job-7.1", q.Path)
		require.Equal(t, "bad", b.content("queue/quarantine/job-7.1"))
	})
}

// A missing file is reported to the requester and is no failure of the disk.
func TestAMissingFileIsToldToWhoAsked(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		request := b.move("queue/job-7", "queue/archive/0/job-7")
		b.log.agree()
		failures := b.answer(request).GetFiles().Failures
		require.Len(t, failures, 1)
		require.True(t, failures[0].Missing)
		require.Equal(t, "queue/job-7", failures[0].Path)
		next := b.write("queue/job-8", "v1")
		b.log.agree()
		b.written(next)
	})
}

func TestACrashForgetsWhatWasAskedAndItIsAskedAgain(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.write("queue/job-7", "v1")
		lost := b.log.take()[0]
		attached := b.log.attached
		b.Restart(b.replicator)
		require.Equal(t, attached+1, b.log.attached)
		kittest.Expect[*messages.ResignMaster](b.master)
		b.log.agree()
		kittest.Expect[*messages.BecomeMaster](b.master)
		former := b.epoch
		b.epoch = kittest.Expect[*messages.StoreStarted](b.client).Incarnation
		require.Greater(t, b.epoch, former)

		b.log.commit(lost.entry) // of the former incarnation: it is not answered
		b.client.Quiet()
		request := b.write("queue/job-7", "v1")
		offer := b.log.take()[0]
		require.NotEqual(t, lost.number, offer.number)
		b.log.commit(offer.entry)
		b.written(request)
	})
}

func TestAStoreThatCrashesIsAskedAgain(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		block := b.disk.Block("replace apply queue/job-7")
		request := b.write("queue/job-7", "v1")
		b.log.commit(b.log.take()[0].entry)
		block.Entered()
		b.Crash(b.store)
		block.Release()
		b.Advance(kittest.Backoff)
		b.written(request)
		require.Equal(t, 2, len(b.disk.Calls("replace apply queue/job-7")))
		require.True(t, strings.HasPrefix(b.content("queue/job-7"), "v1"))
	})
}

// A submission is answered when a majority has it, before it is on the disk of this node. A
// read of its files waits for the disk.
func TestWhatNeedsOnlyBeLoggedIsAnsweredBeforeItIsOnTheDisk(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		block := b.disk.Block("replace apply queue/job-7")
		write := &messages.WriteFiles{Durable: true, Logged: true, Files: []*messages.FileWrite{{Op: "test", Path: "queue/job-7", Content: []byte("v1")}}}
		request := b.ask(&messages.AccessStore{What: &messages.AccessStore_Write{Write: write}})
		offers := b.log.take()
		b.client.Quiet()
		b.log.commit(offers[0].entry)
		block.Entered()
		b.written(request)
		read := b.ask(&messages.AccessStore{What: &messages.AccessStore_Read{Read: &messages.ReadFile{Op: "test", Path: "queue/job-7"}}})
		b.client.Quiet()
		block.Release()
		require.Equal(t, "v1", string(b.answer(read).GetRead().Content))
		b.client.Quiet()
	})
}
