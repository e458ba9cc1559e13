// Package queue has the commands about the whole queue: status, drain, and config for its
// settings.
package queue
