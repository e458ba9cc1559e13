// Package access decides who may do what: who has sent a request, which role that gives, and which role each request needs
// (docs/security.md). It is pure.
package access
