#!/usr/bin/env bash
# rclone 1.76.0, `copy --metadata` from S3 to a folder: x-amz-meta-mode is read as octal digits, which
# rclone itself writes. s3fs and others write the same header in decimal. So a file that they have put with
# the mode 0644 (33188) gets the default, since 8 is no octal digit, with no more than a message of
# --log-level DEBUG, and those with 0755 (33261) and 0600 (33152) get what the last three digits say, 0261
# and 0152. `lsjson --metadata` hands on the decimal number, where a mode is octal by the manual.
#
# The objects are put into a bucket of versitygw 1.8.0 with the headers that s3fs 1.90 sends. Seen, as
# header, lsjson, mode of the copy, under umask 077: "33188, 33188, 600; 33261, 33261, 261;
# 33152, 33152, 152; 100644, 100644, 644". Exit status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
cat >"$work/main.go" <<'GO'
package main

import (
	_ "github.com/rclone/rclone/backend/local"
	_ "github.com/rclone/rclone/backend/s3"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/copy"
	_ "github.com/rclone/rclone/cmd/lsjson"
)

func main() { cmd.Main() }
GO
(
    cd "$work"
    GOBIN=$work GOFLAGS=-modcacherw go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
    go mod init served
    go get github.com/rclone/rclone@v1.76.0
    go mod tidy
    go build -o rclone .
) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
export XDG_CACHE_HOME=$work/cache XDG_CONFIG_HOME=$work/config
mkdir -p "$work/files/bucket"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
setpriv --pdeathsig TERM "$work/versitygw" --port "127.0.0.1:$port" --quiet --access key --secret secret \
    posix "$work/files" >>"$work/log" 2>&1 &
server=$!
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do kill -0 "$server"; sleep 0.1; done

modes='33188 33261 33152 100644'
for mode in $modes; do
    curl -sS --fail --aws-sigv4 aws:amz:us-east-1:s3 --user key:secret \
        -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' -H "x-amz-meta-mode: $mode" \
        -H "x-amz-meta-uid: $(id -u)" -H "x-amz-meta-gid: $(id -g)" -H 'x-amz-meta-mtime: 1795839036' \
        -X PUT --data-binary bytes "http://127.0.0.1:$port/bucket/$mode"
done
ask() {
    "$work/rclone" "$@" --metadata --s3-provider Other --s3-endpoint "http://127.0.0.1:$port" \
        --s3-access-key-id key --s3-secret-access-key secret 2>"$work/log" || { cat "$work/log"; exit 1; }
}
umask 077
ask lsjson :s3:bucket >"$work/listed"
ask copy :s3:bucket "$work/copied"
# shellcheck disable=SC2086
python3 - "$work/listed" "$work/copied" $modes <<'PYTHON' | tee "$work/seen"
import json, os, sys

listed, copied, *modes = sys.argv[1:]
metadata = {entry["Name"]: entry["Metadata"] for entry in json.load(open(listed))}
bits = {mode: os.stat(os.path.join(copied, mode)).st_mode & 0o7777 for mode in modes}
print("; ".join(f"{mode}, {metadata[mode]['mode']}, {bits[mode]:o}" for mode in modes))
PYTHON
[ "$(cat "$work/seen")" = \
    '33188, 33188, 600; 33261, 33261, 261; 33152, 33152, 152; 100644, 100644, 644' ]
