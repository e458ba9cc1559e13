// Package submit has the commands that make jobs: run submits one command and follows it in the
// foreground; submit submits the jobs of a file and can wait for their ends. All submits jobs for
// other packages.
package submit
