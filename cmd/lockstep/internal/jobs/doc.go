// Package jobs has the commands about jobs that exist: list, info, watch, log, cancel,
// priority, archive and autoarchive. Other packages may ask it for the rows of the list,
// and to cancel a job.
package jobs
