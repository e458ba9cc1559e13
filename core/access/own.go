package access

import "fmt"

// NotOwn is the refusal of an order of user about a job that belongs to another one: "job 12 is root's; to kill it needs the role operate,
// alice has submit". what is "kill it" there.
func NotOwn(id int64, owner Submitter, what, user string) string {
	return fmt.Sprintf("job %d is %s's; to %s needs the role %s, %s has %s", id, owner, what, Operate, user, Submit)
}

// NotOwnHold is the refusal to release a job of user that an operator holds.
func NotOwnHold(id int64, holder, user string) string {
	return fmt.Sprintf("job %d is held by %s; to release it needs the role %s, %s has %s", id, holder, Operate, user, Submit)
}
