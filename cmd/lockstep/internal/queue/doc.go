// Package queue has the commands about the queue as a whole: status, drain, and config for
// its settings.
package queue
