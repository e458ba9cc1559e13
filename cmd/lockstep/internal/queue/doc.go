// Package queue has the commands about the whole queue: status and drain.
package queue
