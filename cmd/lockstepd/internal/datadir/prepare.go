// Package datadir prepares the data directory for a start of the daemon: it checks whose directory it is and that the queue belongs to it,
// creates the files that are missing at the first start, and reads the configuration.
//
// Its errors say in words what the operator can do. A check changes nothing. The caller owns the directory by its locks.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/sirupsen/logrus"

	"lockstep/actors/config/configstore"
	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/config"
	"lockstep/core/paths"
	"lockstep/persistence"
)

// initQueue creates the files of the queue that are missing. member says that the node has a consensus log.
func initQueue(files *persistence.OSFiles, log *logrus.Logger, member bool) error {
	if member {
		return persistence.InitMember(files)
	}
	start, err := persistence.InitQueue(files)
	if err == nil && start.SerialRecreated {
		log.WithField("serial", start.Serial).Warn("queue/serial was missing; recreated from the highest job id found")
	}
	return err
}

// Prepare creates the files that are missing at the first start, and reads and checks the configuration. It removes left-over temporary
// files and corrects the owners of files, and only logs if that fails. member says that the node has a consensus log.
func Prepare(c settings.Config, hasQueue bool, files *persistence.OSFiles, log *logrus.Logger, member bool) (*configstore.Prepared, error) {
	sweep := []string{"."}
	if hasQueue {
		if err := initQueue(files, log, member); err != nil {
			return nil, err
		}
		sweep = append(sweep, paths.QueueDir, paths.AuditDir, paths.ScheduleDir)
	}
	for _, dir := range sweep {
		if _, err := files.SweepTemp(dir); err != nil {
			log.WithField("err", err).Warn("removal of left-over temporary files failed")
		}
	}
	if err := files.CorrectOwners("start", paths.ConfigPath, paths.LocksPath, paths.LocksJournalPath); err != nil {
		log.WithField("err", err).Warn("user, group or mode of files of the data directory are wrong and could not be corrected")
	}
	if _, err := os.Stat(filepath.Join(c.DataDir, paths.ConfigPath)); errors.Is(err, fs.ErrNotExist) {
		if err := writeExamples(c); err != nil {
			return nil, err
		}
		if err := firstConfig(c, files); err != nil {
			return nil, err
		}
	}
	prepared, err := readConfig(c, files)
	if err == nil && prepared.Size() > largeConfig {
		debug.SetGCPercent(largeConfigGC)
	}
	debug.FreeOSMemory() // the decoding of a large configuration leaves several times its size
	return prepared, err
}

// With a configuration of more than largeConfig bytes at the start, the heap grows by largeConfigGC percent of what lives between
// two collections, so that the memory of the process stays below ten times the configuration.
const (
	largeConfig   = 4 << 20
	largeConfigGC = 50
)

// readConfig reads the configuration, and checks that the daemon can start with it.
func readConfig(c settings.Config, files *persistence.OSFiles) (*configstore.Prepared, error) {
	prepared, err := (configstore.Offline{Files: files}).Prepare()
	if err != nil {
		return nil, errors.New(configstore.Explain(err, c.DataDir))
	}
	current := prepared.Config()
	if current == nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(c.DataDir, paths.ConfigPath), fs.ErrNotExist)
	}
	if _, err := config.ClusterOf(current); err != nil {
		return nil, fmt.Errorf("%s: parsing configuration: %w", filepath.Join(c.DataDir, paths.ConfigPath), err)
	}
	return prepared, nil
}

func firstConfig(c settings.Config, files *persistence.OSFiles) error {
	first, err := config.New(config.Identity{
		ClusterName: c.ClusterName, ClusterUUID: uuid.NewString(), NodeName: c.NodeName, NodeUUID: uuid.NewString(),
		NodeIP: "127.0.0.1", GroupUUID: uuid.NewString(), Now: float64(time.Now().UnixMicro()) / 1e6,
	})
	if err != nil {
		return err
	}
	if err := files.Replace("config", paths.ConfigPath, first.JSON()); err != nil {
		return err
	}
	return files.SyncDir("config", ".")
}
