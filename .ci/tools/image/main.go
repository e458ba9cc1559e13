// Command image makes an OCI archive of a root directory:
//
//	image ROOT.tar OUT.tar VERSION
//
// SOURCE_DATE_EPOCH is its date. It needs no registry and no daemon. The same root gives the same archive.
package main

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: image ROOT.tar OUT.tar VERSION")
		os.Exit(2)
	}
	if err := build(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

func build(root, out, version string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	layer, err := tarball.LayerFromFile(root, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return err
	}
	base := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(base, types.OCIConfigJSON), layer)
	if err != nil {
		return err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return err
	}
	file = file.DeepCopy()
	file.Architecture, file.OS = runtime.GOARCH, "linux"
	file.Created = v1.Time{Time: time.Unix(seconds, 0).UTC()}
	file.Config = v1.Config{
		User:       "7400:7400", // lockstep; packaging/image makes it
		Entrypoint: []string{"/usr/lib/lockstep/container"},
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Volumes:    map[string]struct{}{"/var/lib/lockstep": {}},
		StopSignal: "SIGTERM",
		Labels:     map[string]string{"org.opencontainers.image.title": "lockstep", "org.opencontainers.image.version": version},
	}
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	index, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := index.AppendImage(image, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": "latest", "io.containerd.image.name": "docker.io/library/lockstep:latest",
	})); err != nil {
		return err
	}
	return archive(dir, out, time.Unix(seconds, 0))
}

// archive writes the files below dir into the tar file out, in the order of their names and with one date. Equal files give equal
// archives.
func archive(dir, out string, date time.Time) error {
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	defer file.Close()
	w := tar.NewWriter(file)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: info.Size(), ModTime: date}); err != nil {
			return err
		}
		content, err := os.Open(path)
		if err != nil {
			return err
		}
		defer content.Close()
		_, err = io.Copy(w, content)
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return file.Close()
}
