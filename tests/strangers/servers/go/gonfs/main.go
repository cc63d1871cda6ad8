// Serves a directory with the library go-nfs.
//
// usage: gonfs DIRECTORY ADDRESS:PORT
package main

import (
	"log"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"
	"golang.org/x/sys/unix"
)

// Handles that the server knows at a time: more than the largest directory of the matrix has names.
const handlesMax = 1 << 17

// A directory whose attributes can be set and that holds more than files, directories and links.
type directory struct{ billy.Filesystem }

func (d directory) path(name string) string { return filepath.Join(d.Root(), name) }

func (d directory) Chmod(name string, mode os.FileMode) error { return os.Chmod(d.path(name), mode) }

func (d directory) Lchown(name string, uid, gid int) error { return os.Lchown(d.path(name), uid, gid) }

func (d directory) Chown(name string, uid, gid int) error { return os.Chown(d.path(name), uid, gid) }

func (d directory) Chtimes(name string, accessed, modified time.Time) error {
	return os.Chtimes(d.path(name), accessed, modified)
}

func (d directory) Mknod(name string, mode, major, minor uint32) error {
	return unix.Mknod(d.path(name), mode, int(unix.Mkdev(major, minor)))
}

func (d directory) Mkfifo(name string, mode uint32) error { return unix.Mkfifo(d.path(name), mode) }

func (d directory) Socket(name string) error { return unix.Mknod(d.path(name), unix.S_IFSOCK|0o666, 0) }

func (d directory) Link(old, name string) error { return os.Link(d.path(old), d.path(name)) }

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: gonfs DIRECTORY ADDRESS:PORT")
	}
	listener, err := net.Listen("tcp", os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	unix.Umask(0)
	handler := helpers.NewNullAuthHandler(directory{osfs.New(os.Args[1])})
	log.Fatal(nfs.Serve(listener, helpers.NewCachingHandler(handler, handlesMax)))
}
