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
)

var (
	seedsFlag = flag.Int("seeds", 1000, "how many seeds TestSeeds runs")
	firstFlag = flag.Uint64("first-seed", 1, "the first seed that TestSeeds runs")
)

// stepsOfSeed is how many steps of a run have faults.
const stepsOfSeed = 20_000

func runSeed(t *testing.T, seed uint64, kinds string) Result {
	faults, err := ParseFaults(kinds)
	require.NoError(t, err)
	return Run(seed, RunOptions{Steps: stepsOfSeed, Faults: faults})
}

func requireGood(t *testing.T, kinds string, r Result) {
	t.Helper()
	if r.Err != nil {
		t.Errorf("lockstep-sim run --seed %d --faults %s --steps %d: %v\n%s", r.Seed, kinds, stepsOfSeed, r.Err, shownLines(r.Last))
	}
}

// TestSeeds runs random work, without faults and with all of them.
func TestSeeds(t *testing.T) {
	seeds := *seedsFlag
	if testing.Short() {
		seeds /= 10
	}
	for i := range uint64(seeds) {
		kinds := "all"
		if i%5 == 0 {
			kinds = "none"
		}
		requireGood(t, kinds, runSeed(t, *firstFlag+i, kinds))
		if t.Failed() {
			return
		}
	}
}

// TestKeptSeeds runs what has failed once: "SEED FAULTS # why" a line. One that
// begins with "open" is a fault that is known and not mended yet: it must still
// be seen, and loses that word when it is not.
func TestKeptSeeds(t *testing.T) {
	file, err := os.Open("testdata/seeds.txt")
	require.NoError(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		text, why, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		open := words[0] == "open"
		if open {
			words = words[1:]
		}
		require.Len(t, words, 2, lines.Text())
		seed, err := strconv.ParseUint(words[0], 10, 64)
		require.NoError(t, err)
		t.Run(fmt.Sprintf("%d %s", seed, strings.TrimSpace(why)), func(t *testing.T) {
			r := runSeed(t, seed, words[1])
			if open {
				require.Error(t, r.Err, "mended: take the word open away")
				return
			}
			requireGood(t, words[1], r)
		})
	}
	require.NoError(t, lines.Err())
}

// TestASeedIsARun: the same seed gives the same trace, whatever the number of
// processors; other seeds give others.
func TestASeedIsARun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	sums := map[uint64]uint64{}
	for seed := range uint64(10) {
		for _, processors := range []int{1, 2, 4} {
			runtime.GOMAXPROCS(processors)
			sum := runSeed(t, seed, "all").Sum
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
