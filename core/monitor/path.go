package monitor

import (
	"strings"
)

// Resource is what a path of the API names (mond.md 2).
type Resource int

// Resources.
const (
	NoResource   Resource = iota // 404: there is no such path
	NoReport                     // 404: there is no such report, or it is inactive
	Versions                     // the API versions
	VersionRoot                  // null
	Listing                      // the active collectors
	AllReports                   // the reports of all of them
	SingleReport                 // the report of one collector
)

// Texts of the answers without a resource.
const (
	NoResourceText = "Resource not found"
	NoReportText   = "Unable to produce a report for the requested resource"
)

// Paths are paths that name all resources, and paths that name none.
func Paths() []string {
	return []string{"/", "/1", "/1/list/collectors", "/1/report/all", "/1/report/default/jobqueue", "/1/report", "/nosuch"}
}

// FindResource returns what a path names, after percent-decoding, and the category and name of a single report. Further
// components after a complete path are ignored.
func FindResource(path string) (found Resource, category, name string) {
	if path == "/" {
		return Versions, "", ""
	}
	rest, isOurs := strings.CutPrefix(path, "/1")
	if !isOurs || rest != "" && rest[0] != '/' {
		return NoResource, "", ""
	}
	parts := strings.Split(strings.TrimPrefix(rest, "/"), "/")
	at := func(i int) string {
		if i < len(parts) {
			return parts[i]
		}
		return ""
	}
	switch {
	case at(0) == "" && len(parts) == 1:
		return VersionRoot, "", ""
	case at(0) == "list" && at(1) == "collectors":
		return Listing, "", ""
	case at(0) == "report" && at(1) == "all":
		return AllReports, "", ""
	case at(0) == "report" && at(1) != "" && at(2) != "":
		return SingleReport, at(1), at(2)
	case at(0) == "report":
		return NoReport, "", ""
	}
	return NoResource, "", ""
}
