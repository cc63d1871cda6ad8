#!/usr/bin/env bash
# rclone 1.76.0, `serve s3`: the answer to CreateMultipartUpload has another root element than S3's
# InitiateMultipartUploadResult, so that clients which look at it cannot upload in parts.
#
# Seen: "CreateMultipartUpload 200: InitiateMultipartUpload; ListParts 200: ListPartsResult". Exit status
# 1 when that changes.
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
import xml.etree.ElementTree as tree

def ask(method, target):
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
    connection.request(method, target, b"" if method == "POST" else None)
    answer = connection.getresponse()
    text = answer.read().decode()
    return f"{answer.status}: {tree.fromstring(text).tag.split('}')[-1]}", text

create, text = ask("POST", "/bucket/key?uploads")
upload = re.search("<UploadId>(.*)</UploadId>", text).group(1)
parts, _ = ask("GET", f"/bucket/key?uploadId={upload}")
print(f"CreateMultipartUpload {create}; ListParts {parts}")
END
[ "$(cat "$work/seen")" = \
    'CreateMultipartUpload 200: InitiateMultipartUpload; ListParts 200: ListPartsResult' ]
