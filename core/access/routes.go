package access

import "strings"

// Route is what a request over HTTP needs: an operation of the remote API, or a form or page of the console. A Route with the role None
// permits each user, and also clients without a login if the server requires none.
type Route struct {
	Need
	Public bool // it needs no login: the answer says nothing about jobs
	// Defines: it defines jobs, which run as the user whose they are.
	Defines bool
}

// Routes by what they need.
var (
	needsAdmin   = Route{Need: Need{Role: Admin}}
	needsOperate = Route{Need: Need{Role: Operate}}
	needsOwn     = Route{Need: Need{Role: Submit, Own: true}}
	needsSubmit  = Route{Need: Need{Role: Submit}}
	needsRead    = Route{Need: Need{Role: Read}}
	needsUser    = Route{}
	needsNothing = Route{Public: true}
)

// String is what the route needs, as docs/security.md has it.
func (r Route) String() string {
	switch {
	case r.Public:
		return "no login"
	case r.Own:
		return r.Role.String() + " for own jobs, operate for those of others"
	case r.Role == None:
		return "any user"
	}
	return r.Role.String()
}

// Refuse reports why a user with a role may not make the request; nil: he may, as far as his role decides. The error is a *Refusal.
func (r Route) Refuse(user string, has Role) error {
	if has >= r.Role {
		return nil
	}
	return &Refusal{What: r.To, Needs: r.Role, Has: has, Who: user}
}

// RapiRoutes are the operations of the remote API, by method and path as in "PUT /3/settings".
func RapiRoutes() map[string]Route { return rapiRoutes }

// RapiRoute is the operation with this method and path. An unknown one needs the role admin.
func RapiRoute(route string) Route {
	r, known := rapiRoutes[route]
	if !known {
		r = needsAdmin
	}
	r.To = "use " + route
	return r
}

var rapiRoutes = map[string]Route{
	"GET /":                                     needsUser,
	"GET /2":                                    needsUser,
	"GET /2/features":                           needsUser,
	"GET /2/filters":                            needsUser,
	"POST /2/filters":                           needsOperate,
	"GET /2/filters/{uuid}":                     needsUser,
	"PUT /2/filters/{uuid}":                     needsOperate,
	"DELETE /2/filters/{uuid}":                  needsOperate,
	"GET /2/groups":                             needsUser,
	"POST /2/groups":                            needsAdmin,
	"GET /2/groups/{name}":                      needsUser,
	"DELETE /2/groups/{name}":                   needsAdmin,
	"PUT /2/groups/{name}/assign-nodes":         needsAdmin,
	"PUT /2/groups/{name}/modify":               needsAdmin,
	"PUT /2/groups/{name}/rename":               needsAdmin,
	"GET /2/groups/{name}/tags":                 needsUser,
	"PUT /2/groups/{name}/tags":                 needsAdmin,
	"DELETE /2/groups/{name}/tags":              needsAdmin,
	"GET /2/info":                               needsUser,
	"GET /2/instances":                          needsUser,
	"POST /2/instances":                         needsAdmin,
	"POST /2/instances-multi-alloc":             needsAdmin,
	"GET /2/instances/{name}":                   needsUser,
	"DELETE /2/instances/{name}":                needsAdmin,
	"PUT /2/instances/{name}/activate-disks":    needsAdmin,
	"GET /2/instances/{name}/console":           needsRead,
	"PUT /2/instances/{name}/deactivate-disks":  needsAdmin,
	"POST /2/instances/{name}/disk/{disk}/grow": needsAdmin,
	"PUT /2/instances/{name}/export":            needsAdmin,
	"PUT /2/instances/{name}/failover":          needsAdmin,
	"GET /2/instances/{name}/info":              needsAdmin,
	"PUT /2/instances/{name}/migrate":           needsAdmin,
	"PUT /2/instances/{name}/modify":            needsAdmin,
	"PUT /2/instances/{name}/prepare-export":    needsAdmin,
	"POST /2/instances/{name}/reboot":           needsAdmin,
	"POST /2/instances/{name}/recreate-disks":   needsAdmin,
	"POST /2/instances/{name}/reinstall":        needsAdmin,
	"PUT /2/instances/{name}/rename":            needsAdmin,
	"POST /2/instances/{name}/replace-disks":    needsAdmin,
	"PUT /2/instances/{name}/shutdown":          needsAdmin,
	"PUT /2/instances/{name}/startup":           needsAdmin,
	"GET /2/instances/{name}/tags":              needsUser,
	"PUT /2/instances/{name}/tags":              needsAdmin,
	"DELETE /2/instances/{name}/tags":           needsAdmin,
	"GET /2/jobs":                               needsUser,
	"GET /2/jobs/{id}":                          needsUser,
	"DELETE /2/jobs/{id}":                       needsOwn,
	"GET /2/jobs/{id}/wait":                     needsSubmit,
	"PUT /2/modify":                             needsAdmin,
	"GET /2/networks":                           needsUser,
	"POST /2/networks":                          needsAdmin,
	"GET /2/networks/{name}":                    needsUser,
	"DELETE /2/networks/{name}":                 needsAdmin,
	"PUT /2/networks/{name}/connect":            needsAdmin,
	"PUT /2/networks/{name}/disconnect":         needsAdmin,
	"PUT /2/networks/{name}/modify":             needsAdmin,
	"GET /2/networks/{name}/tags":               needsUser,
	"PUT /2/networks/{name}/tags":               needsAdmin,
	"DELETE /2/networks/{name}/tags":            needsAdmin,
	"GET /2/nodes":                              needsUser,
	"GET /2/nodes/{name}":                       needsUser,
	"POST /2/nodes/{name}/evacuate":             needsAdmin,
	"POST /2/nodes/{name}/migrate":              needsAdmin,
	"POST /2/nodes/{name}/modify":               needsAdmin,
	"POST /2/nodes/{name}/powercycle":           needsAdmin,
	"GET /2/nodes/{name}/role":                  needsUser,
	"PUT /2/nodes/{name}/role":                  needsAdmin,
	"GET /2/nodes/{name}/storage":               needsAdmin,
	"PUT /2/nodes/{name}/storage/modify":        needsAdmin,
	"PUT /2/nodes/{name}/storage/repair":        needsAdmin,
	"GET /2/nodes/{name}/tags":                  needsUser,
	"PUT /2/nodes/{name}/tags":                  needsAdmin,
	"DELETE /2/nodes/{name}/tags":               needsAdmin,
	"GET /2/os":                                 needsAdmin,
	"GET /2/query/{kind}":                       needsRead,
	"PUT /2/query/{kind}":                       needsRead,
	"GET /2/query/{kind}/fields":                needsUser,
	"PUT /2/redistribute-config":                needsAdmin,
	"GET /2/tags":                               needsUser,
	"PUT /2/tags":                               needsAdmin,
	"DELETE /2/tags":                            needsAdmin,
	"GET /3/audit":                              {Need: needsAudit},
	"PUT /3/drain":                              needsOperate,
	"GET /3/events":                             needsRead,
	"GET /3/filters":                            needsRead,
	"POST /3/filters/test":                      needsRead,
	"GET /3/jobs":                               needsRead,
	"POST /3/jobs":                              needsSubmit,
	"DELETE /3/jobs/{id}":                       needsOwn,
	"PUT /3/jobs/{id}/archive":                  needsOwn,
	"PUT /3/jobs/{id}/hold":                     needsOwn,
	"PUT /3/jobs/{id}/time":                     needsOwn,
	"DELETE /3/jobs/{id}/hold":                  needsOwn,
	"GET /3/jobs/{id}/log":                      needsRead,
	"GET /3/jobs/{id}/log/events":               needsRead,
	"PUT /3/jobs/{id}/priority":                 needsOwn,
	"GET /3/jobs/{id}/why":                      needsRead,
	"GET /3/locks":                              needsRead,
	"GET /3/nodes":                              needsRead,
	"PUT /3/nodes/{node}/master":                needsAdmin,
	"GET /3/opcodes":                            needsRead,
	"GET /3/openapi.json":                       needsUser,
	"GET /3/order":                              needsRead,
	"GET /3/schedules":                          needsRead,
	"GET /3/schedules/{name}":                   needsRead,
	"PUT /3/schedules/{name}":                   {Need: needsOwn.Need, Defines: true},
	"DELETE /3/schedules/{name}":                needsOwn,
	"POST /3/schedules/{name}/run":              needsOwn,
	"PUT /3/schedules/{name}/pause":             needsOwn,
	"DELETE /3/schedules/{name}/pause":          needsOwn,
	"GET /3/settings":                           needsRead,
	"PUT /3/settings":                           needsAdmin,
	"GET /3/status":                             needsRead,
	"GET /healthz":                              needsNothing,
	"GET /metrics":                              needsNothing,
	"GET /readyz":                               needsNothing,
	"GET /version":                              needsUser,
}

// ConsoleForms are the forms of the console, by method and path as in "POST /ui/settings".
func ConsoleForms() map[string]Route { return consoleForms }

// ConsoleRoute is the form or the page of the console with this method and path. An unknown form needs the role admin.
func ConsoleRoute(route string) Route {
	form, known := consoleForms[route]
	switch {
	case known:
		return form
	case route == "GET /ui/audit":
		return Route{Need: needsAudit}
	case strings.HasPrefix(route, "GET "):
		return Route{Need: Need{Role: Read, To: "see the jobs"}}
	}
	return Route{Need: Need{Role: Admin, To: "use " + route}}
}

var needsAudit = Need{Role: Operate, To: "read the audit log"}

var consoleForms = map[string]Route{
	"POST /ui/login":                     needsNothing,
	"POST /ui/open":                      needsNothing,
	"POST /ui/logout":                    needsUser,
	"POST /ui/jobs/confirm":              {Need: Need{Role: Read, To: "see the jobs of an action"}},
	"POST /ui/jobs/apply":                {Need: Need{Role: Submit, Own: true, To: "change jobs"}},
	"POST /ui/jobs/{id}/{action}":        {Need: Need{Role: Submit, Own: true, To: "change jobs"}},
	"POST /ui/filters/preview":           {Need: Need{Role: Read, To: "test filter rules"}},
	"POST /ui/filters/save":              {Need: Need{Role: Operate, To: "change filter rules"}},
	"POST /ui/filters/delete":            {Need: Need{Role: Operate, To: "delete filter rules"}},
	"POST /ui/nodes/confirm":             {Need: Need{Role: Read, To: "see what another master means"}},
	"POST /ui/nodes/promote":             {Need: Need{Role: Admin, To: "promote nodes"}},
	"POST /ui/schedules/confirm":         {Need: Need{Role: Read, To: "see what the removal of a schedule means"}},
	"POST /ui/schedules/{name}/{action}": {Need: Need{Role: Submit, Own: true, To: "change schedules"}},
	"POST /ui/settings":                  {Need: Need{Role: Admin, To: "change settings"}},
	"POST /ui/drain":                     {Need: Need{Role: Operate, To: "drain the queue"}},
	"POST /ui/opcodes/{name}":            {Need: Need{Role: Submit, To: "submit jobs"}},
}
