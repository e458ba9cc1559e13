package monitor

import (
	"fmt"
	"strconv"
	"strings"
)

// LVColumns are the columns that lvs must print for LVData, in their order, separated by semicolons, with sizes in bytes.
const LVColumns = "lv_uuid,lv_name,lv_attr,lv_major,lv_minor,lv_kernel_major,lv_kernel_minor,lv_size,seg_count,lv_tags,modules," +
	"vg_uuid,vg_name,segtype,seg_start,seg_start_pe,seg_size,seg_tags,seg_pe_ranges,devices"

// lv is one segment of a logical volume.
type lv struct {
	UUID        string  `json:"uuid"`
	Name        string  `json:"name"`
	Attr        string  `json:"attr"`
	Major       int64   `json:"major"`
	Minor       int64   `json:"minor"`
	KernelMajor int64   `json:"kernel_major"`
	KernelMinor int64   `json:"kernel_minor"`
	Size        int64   `json:"size"` // bytes
	SegCount    int64   `json:"seg_count"`
	Tags        string  `json:"tags"`
	Modules     string  `json:"modules"`
	VGUUID      string  `json:"vg_uuid"`
	VGName      string  `json:"vg_name"`
	SegType     string  `json:"segtype"`
	SegStart    int64   `json:"seg_start"` // bytes
	SegStartPE  int64   `json:"seg_start_pe"`
	SegSize     int64   `json:"seg_size"` // bytes
	SegTags     string  `json:"seg_tags"`
	SegPERanges string  `json:"seg_pe_ranges"`
	Devices     string  `json:"devices"`
	Instance    *string `json:"instance"` // null: no instance uses the volume
}

// LVData converts the output of the program lvs into the data of the collector lv (mond.md 5).
func LVData(text []byte, f *Facts) (Data, error) {
	all := []lv{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if strings.TrimSpace(line) == "" {
			continue
		}
		v, err := parseLV(strings.TrimSpace(line))
		if err != nil {
			return Data{}, fmt.Errorf("lvs, line %d: %w", number, err)
		}
		if f != nil {
			if instance, used := f.Volumes[v.VGName+"/"+v.Name]; used {
				v.Instance = &instance
			}
		}
		all = append(all, v)
	}
	return Data{Full: all}, nil
}

func parseLV(line string) (v lv, err error) {
	columns := strings.Split(line, ";")
	targets := []any{&v.UUID, &v.Name, &v.Attr, &v.Major, &v.Minor, &v.KernelMajor, &v.KernelMinor, &v.Size, &v.SegCount, &v.Tags, &v.Modules,
		&v.VGUUID, &v.VGName, &v.SegType, &v.SegStart, &v.SegStartPE, &v.SegSize, &v.SegTags, &v.SegPERanges, &v.Devices}
	if len(columns) != len(targets) {
		return v, fmt.Errorf("%d columns instead of %d", len(columns), len(targets))
	}
	for i, target := range targets {
		switch to := target.(type) {
		case *string:
			*to = strings.TrimSpace(columns[i])
		case *int64:
			if *to, err = strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(columns[i]), "B"), 10, 64); err != nil {
				return v, fmt.Errorf("%q is not a number", columns[i])
			}
		}
	}
	return v, nil
}
