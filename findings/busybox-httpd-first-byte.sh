#!/usr/bin/env bash
# busybox 1.35.0 (Debian 12), httpd: the range of the first byte alone, `bytes=0-0`, is answered with all
# of the file. A last byte of 0 is taken for none. Other ranges of one byte are right.
#
# Seen, of a file of 10 bytes: "bytes=0-0: 206, bytes 0-9/10, 10 bytes; bytes=0-1: 206, bytes 0-1/10,
# 2 bytes; bytes=1-1: 206, bytes 1-1/10, 1 bytes". Exit status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
(
    cd "$work"
    apt-get -q -o APT::Sandbox::User=root download busybox
    dpkg-deb -x busybox_*1.35.0-*.deb .
) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
mkdir "$work/files"
printf 0123456789 >"$work/files/ten"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$work/bin/busybox" httpd -f -p "127.0.0.1:$port" -h "$work/files" &
server=$!
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do kill -0 "$server"; sleep 0.1; done

python3 - "$port" <<'END' | tee "$work/seen"
import http.client, sys

def of(asked):
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
    connection.request("GET", "/ten", headers={"Range": asked})
    answer = connection.getresponse()
    count = len(answer.read())
    return f"{asked}: {answer.status}, {answer.getheader('Content-Range')}, {count} bytes"

print("; ".join(of(asked) for asked in ("bytes=0-0", "bytes=0-1", "bytes=1-1")))
END
[ "$(cat "$work/seen")" = 'bytes=0-0: 206, bytes 0-9/10, 10 bytes; bytes=0-1: 206, bytes 0-1/10, 2 bytes; bytes=1-1: 206, bytes 1-1/10, 1 bytes' ]
