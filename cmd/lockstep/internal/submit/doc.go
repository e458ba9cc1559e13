// Package submit has the commands that make jobs: run, for one command, which it follows
// in the foreground, and submit, for the jobs of a file, whose ends it can await. Other
// packages may ask it to submit jobs.
package submit
