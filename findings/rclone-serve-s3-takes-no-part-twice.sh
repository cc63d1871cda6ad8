#!/usr/bin/env bash
# rclone 1.76.0, `serve s3`: a part of an upload that is sent again is refused as not implemented, where
# S3 takes the later one in place of the first. A client that has lost an answer to UploadPart, or whose
# bytes have changed meanwhile, has to begin a new upload.
#
# Seen: "part 1: 200, part 1 again: 501, part 2: 200". Exit status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
cat >"$work/main.go" <<'END'
package main

import (
	_ "github.com/rclone/rclone/backend/local"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/serve/s3"
)

func main() { cmd.Main() }
END
(
    cd "$work"
    go mod init served
    go get github.com/rclone/rclone@v1.76.0
    go mod tidy
    go build -o rclone .
) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
export XDG_CACHE_HOME=$work/cache XDG_CONFIG_HOME=$work/config
mkdir -p "$work/files/bucket"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$work/rclone" serve s3 "$work/files" --addr "127.0.0.1:$port" 2>"$work/log" &
server=$!
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do kill -0 "$server"; sleep 0.1; done

python3 - "$port" <<'END' | tee "$work/seen"
import http.client, re, sys

def ask(method, target, body):
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
    connection.request(method, target, body)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()

_, text = ask("POST", "/bucket/key?uploads", b"")
upload = re.search("<UploadId>(.*)</UploadId>", text).group(1)
statuses = [
    ask("PUT", f"/bucket/key?partNumber={number}&uploadId={upload}", byte * (5 << 20))[0]
    for number, byte in [(1, b"a"), (1, b"b"), (2, b"c")]
]
print("part 1: {}, part 1 again: {}, part 2: {}".format(*statuses))
END
[ "$(cat "$work/seen")" = 'part 1: 200, part 1 again: 501, part 2: 200' ]
