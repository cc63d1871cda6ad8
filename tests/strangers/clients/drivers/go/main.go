// Go github.com/willscott/go-nfs-client: one mount, paths below it.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/willscott/go-nfs-client/nfs"
	"github.com/willscott/go-nfs-client/nfs/rpc"
)

const nameCount = 2000

var errWrong = errors.New("another result")

func check(isRight bool) error {
	if isRight {
		return nil
	}
	return errWrong
}

func cell(err error) string {
	var status *nfs.Error
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &status):
		return strings.TrimPrefix(status.ErrorString, "NFS3ERR_")
	case errors.Is(err, os.ErrPermission):
		return "PERM"
	case errors.Is(err, os.ErrExist):
		return "EXIST"
	case errors.Is(err, os.ErrNotExist):
		return "NOENT"
	}
	fmt.Fprintln(os.Stderr, err)
	return "wrong"
}

func content() []byte {
	var text bytes.Buffer
	for line := 0; line < 200000; line++ {
		fmt.Fprintf(&text, "%015d\n", line)
	}
	return text.Bytes()[:3<<20+5]
}

func read(target *nfs.Target, path string) ([]byte, error) {
	file, err := target.Open(path)
	if err != nil {
		return nil, err
	}
	var all []byte
	piece := make([]byte, 256<<10)
	for {
		count, err := file.Read(piece)
		all = append(all, piece[:count]...)
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func isThere(target *nfs.Target, path string) bool {
	_, _, err := target.Lookup(path)
	return !os.IsNotExist(err)
}

type driver struct {
	target *nfs.Target
	work   string
}

func (d *driver) getattr() error {
	attributes, err := d.target.Getattr("content")
	if err != nil {
		return err
	}
	return check(attributes.Filesize == 3<<20+5 && attributes.Type == nfs.NF3Reg)
}

func (d *driver) list() error {
	entries, err := d.target.ReadDirPlus("many")
	if err != nil {
		return err
	}
	var names []string
	for _, entry := range entries {
		if entry.FileName != "." && entry.FileName != ".." {
			names = append(names, entry.FileName)
		}
	}
	sort.Strings(names)
	for at, name := range names {
		if name != fmt.Sprintf("name-%04d", at+1) {
			return errWrong
		}
	}
	return check(len(names) == nameCount)
}

func (d *driver) read() error {
	found, err := read(d.target, "content")
	if err != nil {
		return err
	}
	return check(bytes.Equal(found, content()))
}

func (d *driver) mkdir() error {
	if _, err := d.target.Mkdir(d.work+"/folder", 0o750); err != nil {
		return err
	}
	attributes, err := d.target.Getattr(d.work + "/folder")
	if err != nil {
		return err
	}
	return check(attributes.Type == nfs.NF3Dir)
}

func (d *driver) create() error {
	if _, err := d.target.Create(d.work+"/created", 0o640); err != nil {
		return err
	}
	attributes, err := d.target.Getattr(d.work + "/created")
	if err != nil {
		return err
	}
	return check(attributes.FileMode&0o777 == 0o640)
}

// File.Write asks for FILE_SYNC, File.Close is a COMMIT.
func (d *driver) write(name string, data []byte, commit bool) error {
	file, err := d.target.OpenFile(d.work+"/"+name, 0o640)
	if err != nil {
		return err
	}
	if _, err := file.Write(data); err != nil {
		return err
	}
	if commit {
		if err := file.Close(); err != nil {
			return err
		}
	}
	found, err := read(d.target, d.work+"/"+name)
	if err != nil {
		return err
	}
	return check(bytes.Equal(found, data))
}

func (d *driver) truncate() error {
	size := nfs.Sattr3{Size: nfs.SetSize{SetIt: true, Size: 1000}}
	if err := d.target.Setattr(d.work+"/long", size); err != nil {
		return err
	}
	attributes, err := d.target.Getattr(d.work + "/long")
	if err != nil {
		return err
	}
	return check(attributes.Filesize == 1000)
}

func (d *driver) rename() error {
	if err := d.target.Rename(d.work+"/before", d.work+"/place/after"); err != nil {
		return err
	}
	return check(isThere(d.target, d.work+"/place/after") && !isThere(d.target, d.work+"/before"))
}

func (d *driver) readlink(path, expected string) error {
	file, err := d.target.Open(path)
	if err != nil {
		return err
	}
	target, err := file.Readlink()
	if err != nil {
		return err
	}
	return check(target == expected)
}

func (d *driver) symlink() error {
	if err := d.readlink("link", "content"); err != nil {
		return err
	}
	if err := d.target.Symlink("../content", d.work+"/symlink"); err != nil {
		return err
	}
	return d.readlink(d.work+"/symlink", "../content")
}

func (d *driver) remove() error {
	if err := d.target.Remove(d.work + "/victim"); err != nil {
		return err
	}
	if err := d.target.RmDir(d.work + "/empty"); err != nil {
		return err
	}
	return check(!isThere(d.target, d.work+"/victim") && !isThere(d.target, d.work+"/empty"))
}

func main() {
	host, export, work := os.Args[1], os.Args[2], os.Args[3]
	mount, err := nfs.DialMount(host, time.Minute)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	target, err := mount.Mount(export, rpc.NewAuthUnix("client", 0, 0).Auth())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	d := &driver{target, work}
	put := func(operation string, err error) { fmt.Printf("%s\t%s\n", operation, cell(err)) }
	put("getattr", d.getattr())
	put("list", d.list())
	put("read", d.read())
	put("mkdir", d.mkdir())
	put("create", d.create())
	put("write", d.write("old", content(), false))
	put("commit", d.write("unstable", content()[:100000], true))
	put("truncate", d.truncate())
	put("rename", d.rename())
	put("symlink", d.symlink())
	fmt.Println("link\tnone")
	put("remove", d.remove())
	put("mount", mount.Unmount())
}
