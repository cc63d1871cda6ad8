// Writes a directory into an image with a Go library of others.
//
// usage: images-go diskfs rock|joliet|both|plain DIRECTORY IMAGE       go-diskfs removes DIRECTORY
//
//	images-go kdomanski plain DIRECTORY IMAGE
package main

import (
	"fmt"
	"os"

	"github.com/diskfs/go-diskfs/backend/file"
	diskfs "github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/kdomanski/iso9660"
)

func withDiskfs(kind, directory, image string) error {
	created, err := os.Create(image)
	if err != nil {
		return err
	}
	defer created.Close()
	filesystem, err := diskfs.Create(file.New(created, false), 0, 0, 2048, directory)
	if err != nil {
		return err
	}
	return filesystem.Finalize(diskfs.FinalizeOptions{
		RockRidge:        kind == "rock" || kind == "both",
		Joliet:           kind == "joliet" || kind == "both",
		DeepDirectories:  true,
		VolumeIdentifier: "DISKFS",
	})
}

func withKdomanski(directory, image string) error {
	writer, err := iso9660.NewWriter()
	if err != nil {
		return err
	}
	defer writer.Cleanup()
	if err := writer.AddLocalDirectory(directory, "/"); err != nil {
		return err
	}
	created, err := os.Create(image)
	if err != nil {
		return err
	}
	defer created.Close()
	return writer.WriteTo(created, "KDOMANSKI")
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: images-go LIBRARY KIND DIRECTORY IMAGE")
		os.Exit(2)
	}
	library, kind, directory, image := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	var err error
	if library == "diskfs" {
		err = withDiskfs(kind, directory, image)
	} else {
		err = withKdomanski(directory, image)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "images-go:", err)
		os.Exit(1)
	}
}
