package monitor

import (
	"fmt"
	"strconv"
	"strings"
)

// diskStat is one line of /proc/diskstats. Columns after the fourteenth are not reported; a missing one is 0, as in the shorter
// lines of old kernels.
type diskStat struct {
	Major         uint64 `json:"major"`
	Minor         uint64 `json:"minor"`
	Name          string `json:"name"`
	Reads         uint64 `json:"readsNum"`
	MergedReads   uint64 `json:"mergedReads"`
	SectorsRead   uint64 `json:"secRead"`
	TimeRead      uint64 `json:"timeRead"`
	Writes        uint64 `json:"writes"`
	MergedWrites  uint64 `json:"mergedWrites"`
	SectorsWriten uint64 `json:"secWritten"`
	TimeWrite     uint64 `json:"timeWrite"`
	IOs           uint64 `json:"ios"`
	TimeIO        uint64 `json:"timeIO"`
	WeightedIO    uint64 `json:"wIOmillis"`
}

// columns are the numbers in the order of the file, without the name.
func (d *diskStat) columns() []*uint64 {
	return []*uint64{&d.Major, &d.Minor, nil, &d.Reads, &d.MergedReads, &d.SectorsRead, &d.TimeRead, &d.Writes, &d.MergedWrites,
		&d.SectorsWriten, &d.TimeWrite, &d.IOs, &d.TimeIO, &d.WeightedIO}
}

// DiskStatsData converts the text of /proc/diskstats into the data of the collector diskstats (mond.md 5).
func DiskStatsData(text []byte) (Data, error) {
	all := []diskStat{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 3 {
			return Data{}, fmt.Errorf("/proc/diskstats, line %d: %d columns", number, len(fields))
		}
		d := diskStat{Name: fields[2]}
		for i, column := range d.columns() {
			if column == nil || i >= len(fields) {
				continue
			}
			value, err := strconv.ParseUint(fields[i], 10, 64)
			if err != nil {
				return Data{}, fmt.Errorf("/proc/diskstats, line %d: %q is not a number", number, fields[i])
			}
			*column = value
		}
		all = append(all, d)
	}
	return Data{Full: all}, nil
}
