#!/usr/bin/env bash
# nfs3_server 0.11.1 (in cargo-nfs3-server 0.2.3): SYMLINK to a target that does not exist answers
# NFS3ERR_NOENT and makes the link all the same; then LOOKUP of the name answers NFS3ERR_NOENT, too,
# and READDIRPLUS lists it with attributes.
#
# Seen: "SYMLINK 2, link made True, LOOKUP 2, listed True". Exit status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off cargo install --quiet --locked \
    --root "$work" --version 0.2.3 cargo-nfs3-server
mkdir "$work/served"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$work/bin/cargo-nfs3-server" --path "$work/served" --bind-ip 127.0.0.1 --bind-port "$port" --quiet &
server=$!
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do kill -0 "$server"; sleep 0.1; done

python3 - "$port" "$work/served/link" <<'END' | tee "$work/seen"
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
    user = opaque(struct.pack(">I", 0) + opaque(b"c") + struct.pack(">III", 0, 0, 0))
    head = struct.pack(">IIIIII", procedure, 0, 2, program, 3, procedure)
    data = head + struct.pack(">I", 1) + user + struct.pack(">II", 0, 0) + arguments
    connection.sendall(struct.pack(">I", 1 << 31 | len(data)) + data)
    (mark,) = struct.unpack(">I", exactly(4))
    return exactly(mark & 0x7FFFFFFF)[24:]

def status(answer):
    return struct.unpack(">I", answer[:4])[0]

answer = call(100005, 1, opaque(b"/"))
(length,) = struct.unpack(">I", answer[4:8])
place = opaque(answer[8 : 8 + length]) + opaque(b"link")
made = call(100003, 10, place + bytes(24) + opaque(b"nowhere"))
found = call(100003, 3, place)
listed = call(100003, 17, opaque(answer[8 : 8 + length]) + bytes(16) + struct.pack(">II", 8192, 8192))
there = os.path.islink(sys.argv[2])
print(f"SYMLINK {status(made)}, link made {there}, LOOKUP {status(found)}, listed {b'link' in listed}")
END
[ "$(cat "$work/seen")" = 'SYMLINK 2, link made True, LOOKUP 2, listed True' ]
