package calls

import (
	"maps"
	"slices"

	"lockstep/core/config/model"
)

// Answers of calls while a client holds the configuration lock.
const (
	busyFalse = "false"
	busyNull  = "null"
)

// specs are the calls by name (config.md 4). Package lock implements the calls about locks.
var specs = map[string]spec{
	"readConfig":                {parse: readConfig},
	"verifyConfig":              {parse: verifyConfig},
	"lockstepConfigHash":        {parse: configHash},
	"lockConfig":                {parse: lockConfig},
	"unlockConfig":              {parse: unlockConfig},
	"writeConfig":               {parse: writeConfig},
	"writeConfigAndUnlock":      {parse: writeConfigAndUnlock},
	"flushConfig":               {parse: flushConfig},
	"flushConfigGroup":          {parse: flushConfigGroup},
	"prepareClusterDestruction": {parse: prepareClusterDestruction},

	"updateCluster":   {updateCluster, busyNull},
	"updateNode":      {updater(model.Nodes, touchCluster), busyNull},
	"updateInstance":  {updater(model.Instances, nil), busyNull},
	"updateNodeGroup": {updater(model.Groups, nil), busyNull},
	"updateNetwork":   {updater(model.Networks, nil), busyNull},
	"updateDisk":      {updateDisk, busyNull},

	"addInstance":            {addInstance, busyFalse},
	"removeInstance":         {removeInstance, busyFalse},
	"setInstanceStatus":      {setInstanceStatus, busyNull},
	"setInstancePrimaryNode": {setInstancePrimaryNode, busyFalse},

	"addInstanceDisk":    {addInstanceDisk, busyFalse},
	"attachInstanceDisk": {attachInstanceDisk, busyFalse},
	"detachInstanceDisk": {detachInstanceDisk, busyFalse},
	"removeInstanceDisk": {removeInstanceDisk, busyFalse},

	"allocatePort":  {allocatePort, busyNull},
	"addTcpUdpPort": {addPort, busyFalse},

	"dropAllReservations":      {parse: dropAllReservations},
	"computeDRBDMap":           {parse: computeDRBDMap},
	"allocateDRBDMinor":        {parse: allocateDRBDMinor},
	"releaseDRBDMinors":        {parse: releaseDRBDMinors},
	"generateMAC":              {parse: generateMAC},
	"reserveMAC":               {parse: reserveMAC},
	"generateDRBDSecret":       {parse: generateDRBDSecret},
	"reserveLV":                {parse: reserveLV},
	"reserveIp":                {parse: reserveIP},
	"releaseIp":                {parse: releaseIP},
	"generateIp":               {parse: generateIP},
	"commitTemporaryIps":       {parse: commitTemporaryIPs},
	"commitReleaseTemporaryIp": {parse: commitReleaseTemporaryIP},
	"listReservedIps":          {parse: listReservedIPs},
}

// Names are the names of all calls, in order.
func Names() []string { return slices.Sorted(maps.Keys(specs)) }
