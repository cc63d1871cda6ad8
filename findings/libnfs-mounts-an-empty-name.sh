#!/usr/bin/env bash
# libnfs 4.0.0 (Debian 12), nfs-cat: of the URL nfs://HOST/FILE, a file at the top of an export that is
# called "/", it asks the server to mount a directory with an empty name. With another slash
# (nfs://HOST//FILE) it asks for "/"; of nfs://HOST/DIRECTORY/FILE for "/DIRECTORY".
#
# The server here is a few lines that answer the NULL call, print the name of each MNT call (RFC 1813,
# appendix I) and refuse it.
#
# Seen: "/file: '', //file: '/', /directory/file: '/directory'". Exit status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
(
    cd "$work"
    apt-get -q -o APT::Sandbox::User=root download \
        libnfs-utils=4.0.0-1+deb12u1 libnfs13=4.0.0-1+deb12u1
    for package in ./*.deb; do dpkg-deb -x "$package" root; done
) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
LD_LIBRARY_PATH=$(dirname "$(find "$work/root" -name 'libnfs.so*' | head -n 1)")
export LD_LIBRARY_PATH

cat >"$work/server.py" <<'END'
import socketserver, struct, sys


class Calls(socketserver.StreamRequestHandler):
    def handle(self):
        while head := self.rfile.read(4):
            record = self.rfile.read(struct.unpack(">I", head)[0] & 0x7FFFFFFF)
            xid, _, _, _, _, procedure = struct.unpack(">6I", record[:24])
            at = 24
            for _ in range(2):  # credentials and verifier
                length = struct.unpack(">I", record[at + 4 : at + 8])[0]
                at += 8 + (length + 3) // 4 * 4
            results = b""
            if procedure == 1:  # MNT
                length = struct.unpack(">I", record[at : at + 4])[0]
                print(repr(record[at + 4 : at + 4 + length].decode()), file=names, flush=True)
                results = struct.pack(">I", 2)  # MNT3ERR_NOENT
            reply = struct.pack(">6I", xid, 1, 0, 0, 0, 0) + results
            self.wfile.write(struct.pack(">I", len(reply) | 0x80000000) + reply)


names = open(sys.argv[1], "a")
with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Calls) as server:
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()
END
# Clients reset their connections, which it would say.
python3 "$work/server.py" "$work/names" >"$work/port" 2>/dev/null &
server=$!
until [ -s "$work/port" ]; do sleep 0.1; done
ports="nfsport=$(cat "$work/port")&mountport=$(cat "$work/port")"

seen=
for path in /file //file /directory/file; do
    timeout 20 "$work/root/usr/bin/nfs-cat" "nfs://127.0.0.1$path?$ports" >"$work/log" 2>&1 || true
    seen+="${seen:+, }$path: $(tail -n 1 "$work/names")"
done
echo "$seen"
[ "$seen" = "/file: '', //file: '/', /directory/file: '/directory'" ]
