#!/usr/bin/env bash
# go-nfs 0.0.4: FSINFO says that the server makes hard links (FSF3_LINK), and LINK is decoded as if it
# had the arguments of SYMLINK (directory, name, attributes, path). Those of RFC 1813, a file handle
# and then the place, end as NFS3ERR_INVAL; SYMLINK's arguments sent to LINK make a hard link.
#
# Seen: "FSF3_LINK True, LINK 22, LINK with the arguments of SYMLINK 0, names of the file 2". Exit
# status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
cat >"$work/main.go" <<'END'
package main

import (
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"
)

type directory struct{ billy.Filesystem }

func (d directory) Chmod(string, os.FileMode) error                 { return nil }
func (d directory) Lchown(string, int, int) error                   { return nil }
func (d directory) Chown(string, int, int) error                    { return nil }
func (d directory) Chtimes(string, time.Time, time.Time) error      { return nil }
func (d directory) Mknod(string, uint32, uint32, uint32) error      { return os.ErrInvalid }
func (d directory) Mkfifo(string, uint32) error                     { return os.ErrInvalid }
func (d directory) Socket(string) error                             { return os.ErrInvalid }
func (d directory) Link(old, name string) error {
	return os.Link(filepath.Join(d.Root(), old), filepath.Join(d.Root(), name))
}

func main() {
	listener, err := net.Listen("tcp", os.Args[2])
	if err != nil {
		panic(err)
	}
	handler := helpers.NewNullAuthHandler(directory{osfs.New(os.Args[1])})
	panic(nfs.Serve(listener, helpers.NewCachingHandler(handler, 1024)))
}
END
(
    cd "$work"
    go mod init served
    go get github.com/willscott/go-nfs/helpers@v0.0.4 github.com/go-git/go-billy/v5/osfs@v5.6.0
    go build -o served .
) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
mkdir "$work/files"
echo bytes >"$work/files/one"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$work/served" "$work/files" "127.0.0.1:$port" 2>"$work/log" &
server=$!
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do kill -0 "$server"; sleep 0.1; done

python3 - "$port" "$work/files/one" <<'END' | tee "$work/seen"
import os, socket, struct, sys

connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))

def opaque(data):
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)

def exactly(count):
    data = b""
    while len(data) < count:
        data += connection.recv(count - len(data)) or sys.exit("closed")
    return data

def call(program, procedure, arguments):
    head = struct.pack(">IIIIII", procedure, 0, 2, program, 3, procedure)
    data = head + bytes(16) + arguments
    connection.sendall(struct.pack(">I", 1 << 31 | len(data)) + data)
    (mark,) = struct.unpack(">I", exactly(4))
    return exactly(mark & 0x7FFFFFFF)[24:]

def status(answer):
    return struct.unpack(">I", answer[:4])[0]

def handle_in(answer):
    return opaque(answer[8 : 8 + struct.unpack(">I", answer[4:8])[0]])

root = handle_in(call(100005, 1, opaque(b"/")))
properties = struct.unpack(">I", call(100003, 19, root)[-4:])[0]
one = handle_in(call(100003, 3, root + opaque(b"one")))
link = status(call(100003, 15, one + root + opaque(b"two")))
symlink = status(call(100003, 15, root + opaque(b"three") + bytes(24) + opaque(b"one")))
print(
    f"FSF3_LINK {bool(properties & 1)}, LINK {link}, LINK with the arguments of SYMLINK {symlink}, "
    f"names of the file {os.stat(sys.argv[2]).st_nlink}"
)
END
[ "$(cat "$work/seen")" = 'FSF3_LINK True, LINK 22, LINK with the arguments of SYMLINK 0, names of the file 2' ]
