// Package jobs has the commands about existing jobs: list, info, watch, log, cancel, priority,
// archive and autoarchive. FetchList and Cancel are for other packages.
package jobs
