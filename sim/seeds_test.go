package sim

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

var (
	seedsFlag        = flag.Int("seeds", 200, "how many seeds TestSeeds runs")
	clusterSeedsFlag = flag.Int("cluster-seeds", 50, "how many seeds TestClusterSeeds runs")
	firstFlag        = flag.Uint64("first-seed", 1, "the first seed that TestSeeds runs")
)

// stepsOfSeed is the number of steps with faults in a run.
const stepsOfSeed = 20_000

func runSeed(t *testing.T, nodes int, seed uint64, kinds string) Result {
	faults, err := parseFaults(kinds)
	require.NoError(t, err)
	return simulate(seed, runOptions{Steps: stepsOfSeed, Faults: faults, Nodes: nodes})
}

func requireGood(t *testing.T, nodes int, kinds string, r Result) {
	t.Helper()
	if r.Err != nil {
		t.Errorf("lockstep-sim run --nodes %d --seed %d --faults %s --steps %d: %v\n%s", nodes, r.Seed, kinds, stepsOfSeed, r.Err, shownLines(r.Last))
	}
}

// TestSeeds runs random work, without faults and with faults of all kinds. CI also runs make sim, which has more seeds of each kind of client.
func TestSeeds(t *testing.T) {
	sweepSeeds(t, 1, *seedsFlag, 5)
}

// TestConfigSeeds runs random work beside clients that change the configuration.
func TestConfigSeeds(t *testing.T) {
	seeds := uint64(longtest.Seeds(*seedsFlag / 5))
	faults, err := parseFaults("all")
	require.NoError(t, err)
	for i := uint64(0); i < seeds && !t.Failed(); i++ {
		requireGood(t, 1, "all --config 1", simulate(*firstFlag+i, runOptions{Steps: stepsOfSeed, Faults: faults, Nodes: 1, Config: 1}))
	}
}

// TestReadersFindEveryJob runs random work beside clients that only ask, on one node and on three, and shows that the checker bites.
func TestReadersFindEveryJob(t *testing.T) {
	for nodes, seeds := range map[int]uint64{1: 60, 3: 15} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			o := runOptions{Nodes: nodes, Readers: 1}
			requireSeedsGood(t, seeds, "--readers 1", o)
			requireBite(t, seeds, "jobs are found", o, "blind-to-archive", "none")
		})
	}
}

// TestHoldersCrossStarts runs random work beside clients that hold jobs while their processes load, on one node and on three, and shows that
// the checker bites.
func TestHoldersCrossStarts(t *testing.T) {
	faults, err := parseFaults("all")
	require.NoError(t, err)
	hasty, err := findMutation("hasty-answers")
	require.NoError(t, err)
	for nodes, seeds := range map[int]uint64{1: 60, 3: 15} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			for i := range longtest.Seeds(seeds) {
				requireGood(t, nodes, "all --holders 1", simulate(*firstFlag+i, runOptions{Steps: stepsOfSeed, Faults: faults, Nodes: nodes, Holders: 1}))
			}
			for i := range seeds {
				if r := simulate(*firstFlag+i, runOptions{Steps: stepsOfSeed, Nodes: nodes, Holders: 1, Mutations: hasty}); r.Err != nil {
					require.ErrorContains(t, r.Err, "is held")
					return
				}
			}
			require.Fail(t, "it has not bitten", "within %d seeds", seeds)
		})
	}
}

// TestKeptConfigSeeds runs the kept seeds with clients that change the configuration.
func TestKeptConfigSeeds(t *testing.T) {
	keptSeeds(t, runOptions{Nodes: 1, Config: 1}, "testdata/config-seeds.txt")
}

// TestClusterSeeds runs random work in a cluster of three nodes.
func TestClusterSeeds(t *testing.T) {
	sweepSeeds(t, 3, *clusterSeedsFlag, 10)
}

// sweepSeeds runs count seeds, every nth of them without faults, on two processors.
func sweepSeeds(t *testing.T, nodes, count, nth int) {
	seeds := uint64(longtest.Seeds(count))
	const parts = 2
	for part := range uint64(parts) {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			for i := part; i < seeds && !t.Failed(); i += parts {
				kinds := "all"
				if i%uint64(nth) == 0 {
					kinds = "none"
				}
				requireGood(t, nodes, kinds, runSeed(t, nodes, *firstFlag+i, kinds))
			}
		})
	}
}

// TestKeptSeeds runs the seeds that have failed before. Format of a line: "SEED FAULTS # why".
func TestKeptSeeds(t *testing.T) { keptSeeds(t, runOptions{Nodes: 1}, "testdata/seeds.txt") }

// TestKeptClusterSeeds runs the kept seeds of three nodes.
func TestKeptClusterSeeds(t *testing.T) {
	keptSeeds(t, runOptions{Nodes: 3}, "testdata/cluster-seeds.txt")
}

// TestKeptLargeClusterSeeds runs the kept seeds of five nodes.
func TestKeptLargeClusterSeeds(t *testing.T) {
	keptSeeds(t, runOptions{Nodes: 5}, "testdata/cluster5-seeds.txt")
}

// TestKeptHolderClusterSeeds runs the kept seeds of three nodes with clients that hold jobs while their processes load.
func TestKeptHolderClusterSeeds(t *testing.T) {
	keptSeeds(t, runOptions{Nodes: 3, Holders: 1}, "testdata/cluster-holder-seeds.txt")
}

// TestKeptUsualSeeds runs kept seeds of one node with the usual flags of lockstep-sim run.
func TestKeptUsualSeeds(t *testing.T) {
	keptSeeds(t, runOptions{Nodes: 1, Config: ConfigSeeds, Readers: ReaderSeeds, Holders: HolderSeeds, Hands: HandSeeds, Programs: ProgramSeeds, Crowd: CrowdSeeds, Ganeti: GanetiSeeds}, "testdata/usual-seeds.txt")
}

// TestKeptTrySeeds runs kept seeds of one node with the usual flags of lockstep-sim run, and clients whose commands are tried again.
func TestKeptTrySeeds(t *testing.T) {
	keptSeeds(t, runOptions{Nodes: 1, Config: ConfigSeeds, Readers: ReaderSeeds, Holders: HolderSeeds, Hands: HandSeeds,
		Removals: RemovalSeeds, Programs: ProgramSeeds, Crowd: CrowdSeeds, Ganeti: GanetiSeeds, Followers: FollowerSeeds, Progress: ProgressSeeds, Tries: 1},
		"testdata/tries-seeds.txt")
}

// TestKeptScheduleSeeds runs kept seeds of one node with the usual flags of lockstep-sim run, and clients with schedules.
func TestKeptScheduleSeeds(t *testing.T) {
	keptSeeds(t, runOptions{Nodes: 1, Config: ConfigSeeds, Readers: ReaderSeeds, Holders: HolderSeeds, Hands: HandSeeds,
		Removals: RemovalSeeds, Programs: ProgramSeeds, Crowd: CrowdSeeds, Ganeti: GanetiSeeds, Followers: FollowerSeeds, Progress: ProgressSeeds,
		Users: UserSeeds, Tries: TrySeeds, Times: TimeSeeds, Schedules: 1}, "testdata/schedule-seeds.txt")
}

func keptSeeds(t *testing.T, o runOptions, path string) {
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		text, why, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		require.Len(t, words, 2, lines.Text())
		seed, err := strconv.ParseUint(words[0], 10, 64)
		require.NoError(t, err)
		t.Run(fmt.Sprintf("%d %s", seed, strings.TrimSpace(why)), func(t *testing.T) {
			t.Parallel()
			faults, err := parseFaults(words[1])
			require.NoError(t, err)
			if words[1] == "all" { // the kinds that there were when these seeds were kept
				delete(faults, "older-queue")
			}
			o := o
			o.Steps, o.Faults = stepsOfSeed, faults
			requireGood(t, o.Nodes, fmt.Sprintf("%s --config %d --holders %d", words[1], o.Config, o.Holders), simulate(seed, o))
		})
	}
	require.NoError(t, lines.Err())
}

// TestASeedIsARun checks that the same seed gives the same trace, whatever the number of
// processors, and that other seeds give other traces.
func TestASeedIsARun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	faults, err := parseFaults("all")
	require.NoError(t, err)
	everybody := runOptions{Steps: stepsOfSeed, Faults: faults, Config: 1, Readers: 1, Holders: 1, Hands: 1, Programs: 1, Crowd: 1}
	sums := map[uint64]uint64{}
	for seed := range max(longtest.Times(uint64(10)), 2) {
		for _, processors := range []int{1, 4} {
			runtime.GOMAXPROCS(processors)
			sum := runSeed(t, 1, seed, "all").Sum ^ runSeed(t, 3, seed, "all").Sum ^ simulate(seed, everybody).Sum
			if before, known := sums[seed]; known {
				require.Equal(t, before, sum, "seed %d", seed)
			}
			sums[seed] = sum
		}
	}
	different := map[uint64]bool{}
	for _, sum := range sums {
		different[sum] = true
	}
	require.Len(t, different, len(sums))
}
