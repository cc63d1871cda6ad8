#!/usr/bin/env bash
# rclone 1.76.0, `serve nfs --vfs-cache-mode full`: bytes of WRITEs that were answered with FILE_SYNC
# are lost while a file grows by calls of several connections. The server opens the cached file for
# each WRITE, and opening cuts it to the length that is recorded; another call writes its bytes first
# and records the new length after that. Calls of one connection are done one after the other: a
# client with one connection does not meet it (the Linux client without nconnect).
#
# Sixteen connections write disjoint pieces of 32,000 bytes, as many files of 51 MB one after the other
# as are needed until one is read back with other bytes (40 at most); then as many by one connection.
# Nothing is uploaded meanwhile (--vfs-write-back 1h). Seen, on two busy processors: "16 connections:
# other bytes in file N" with N of 1 to 10, and "1 connection: the bytes written". Exit status 1 when
# that changes.
set -euo pipefail
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
cat >"$work/main.go" <<'END'
package main

import (
	_ "github.com/rclone/rclone/backend/local"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/serve/nfs"
)

func main() { cmd.Main() }
END
(
    cd "$work"
    go mod init served
    go get github.com/rclone/rclone@v1.76.0
    go build -o rclone .
) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
export XDG_CACHE_HOME=$work/cache XDG_CONFIG_HOME=$work/config

cat >"$work/write.py" <<'END'
import os, socket, struct, sys, threading

PIECE, PIECES, FILE_SYNC = 32_000, 1_600, 2

def opaque(data):
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)

class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.number = 0

    def exactly(self, count):
        data = bytearray()
        while len(data) < count:
            data += self.socket.recv(count - len(data)) or sys.exit("closed")
        return bytes(data)

    def call(self, program, procedure, arguments):
        """The results of a call that succeeds, behind their status."""
        self.number += 1
        user = struct.pack(">II", 1, 20) + bytes(20)
        head = struct.pack(">IIIIII", self.number, 0, 2, program, 3, procedure)
        data = head + user + bytes(8) + arguments
        self.socket.sendall(struct.pack(">I", 1 << 31 | len(data)) + data)
        record, last = b"", 0
        while not last:
            (mark,) = struct.unpack(">I", self.exactly(4))
            last = mark >> 31
            record += self.exactly(mark & 0x7FFFFFFF)
        if record[24:28] != bytes(4):
            sys.exit(f"procedure {procedure}: {record[24:28]}")
        return record[28:]

def handle_at(answer, at):
    (length,) = struct.unpack_from(">I", answer, at)
    return opaque(answer[at + 4 : at + 4 + length])

port, connections, files = (int(word) for word in sys.argv[1:4])
connections = [Connection(port) for _ in range(connections)]
root = handle_at(connections[0].call(100005, 1, opaque(b"/")), 0)
data = os.urandom(PIECE)

def write(connection, file, numbers):
    for number in numbers:
        place = struct.pack(">QII", number * PIECE, PIECE, FILE_SYNC)
        answer = connection.call(100003, 7, file + place + opaque(data))
        count, committed = struct.unpack(">II", answer[-16:-8])
        assert (count, committed) == (PIECE, FILE_SYNC), (count, committed)

def is_same(connection, file):
    places = (file + struct.pack(">QI", number * PIECE, PIECE) for number in range(PIECES))
    return all(connection.call(100003, 6, place)[-PIECE:] == data for place in places)

for number in range(1, files + 1):
    name = b"file-%d-%d" % (len(connections), number)
    unchecked_mode = struct.pack(">IIIIIIII", 0, 1, 0o644, 0, 0, 0, 0, 0)
    answer = connections[0].call(100003, 8, root + opaque(name) + unchecked_mode)
    file = handle_at(answer, 4)
    threads = [
        threading.Thread(target=write, args=(connection, file, range(first, PIECES, len(connections))))
        for first, connection in enumerate(connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not is_same(connections[0], file):
        print(f"other bytes in file {number}")
        break
else:
    print("the bytes written")
END

mkdir "$work/files"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$work/rclone" serve nfs "$work/files" --addr "127.0.0.1:$port" --vfs-cache-mode full \
    --vfs-write-back 1h 2>"$work/log" &
server=$!
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do kill -0 "$server"; sleep 0.1; done
several=$(python3 "$work/write.py" "$port" 16 40)
echo "16 connections: $several"
[[ $several =~ ^other\ bytes\ in\ file\ ([0-9]+)$ ]] || exit 1
one=$(python3 "$work/write.py" "$port" 1 "${BASH_REMATCH[1]}")
echo "1 connection: $one"
[ "$one" = 'the bytes written' ]
