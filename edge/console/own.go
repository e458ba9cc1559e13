package console

import (
	"os"
	accounts "os/user"
	"strconv"

	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/edge/rapi"
)

// orders completes "to … needs the role" for each action that only the owner of a job and operators may do.
var orders = map[string]string{
	actionCancel:   "cancel it",
	actionKill:     "kill it",
	actionTime:     "change its time",
	actionHold:     "hold it",
	actionRelease:  "release it",
	actionPriority: "change its priority",
	actionArchive:  "archive it",
	actionAny:      "change it",
}

// actionAny stands for all orders, in words about them together.
const actionAny = "any"

// refuseOrder reports why the user may not do an action on a job; nil: he may, as far as is known here. The queue decides. The error is an
// *access.Refusal.
func (q *request) refuseOrder(action string, j answer.ListedJob) error {
	u := q.user
	if err := access.ConsoleRoute("POST /ui/jobs/{id}/{action}").Refuse(u.From.String(), u.Role); err != nil {
		return err
	}
	owner := q.console.daemon
	if j.Submitter != nil {
		owner = *j.Submitter
	}
	if to := orders[action]; to != "" && u.Role < access.Operate && owner.Key() != u.From.Key() {
		return access.RefusedOrder(j.ID, owner, to, u.From.String())
	}
	return nil
}

// daemonUser is the user of this process, to whom jobs without a submitter belong.
func daemonUser() access.Submitter {
	uid := os.Geteuid()
	account, err := accounts.LookupId(strconv.Itoa(uid))
	if err != nil { // without a name it is shown as a number
		return access.Submitter{UID: uid}
	}
	return access.Submitter{UID: uid, Name: account.Username}
}

// refuseOrders is refuseOrder for several jobs: the refusal of the first that the user may not change. Jobs that are gone do not count.
func (x *Console) refuseOrders(q *request, action string, ids []int64) error {
	if q.user.Role >= access.Operate || orders[action] == "" {
		return nil
	}
	list, err := ask[answer.JobList](q, rapi.Page, "LockstepListJobs", answer.JobSelection{IDs: ids})
	if err != nil {
		return err
	}
	for _, j := range list.Jobs {
		if err := q.refuseOrder(action, j); err != nil {
			return err
		}
	}
	return nil
}
