#!/usr/bin/env bash
# versitygw 1.8.0 (posix backend): RenameObject, `PUT /bucket/new?renameObject` with x-amz-rename-source,
# which S3 has for directory buckets, is answered 200 as a plain PUT: the new name becomes an object of no
# bytes, and the old one stays. A target that was there is replaced by nothing. So a client that renames
# by this call, as mountpoint-s3 does (its crate mountpoint-s3-fs 0.11.0), tells its program that a file
# was moved, and it was not.
#
# Seen, as status of the call, bytes of the old name, of a new name, and of a target that had 9 bytes:
# "200 5 0; 200 5 0". Exit status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
GOBIN=$work GOPATH=$work/go GOFLAGS=-modcacherw go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 \
    >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
mkdir -p "$work/files/bucket"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
setpriv --pdeathsig TERM "$work/versitygw" --port "127.0.0.1:$port" --quiet --access key --secret secret \
    posix "$work/files" >>"$work/log" 2>&1 &
server=$!
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do kill -0 "$server"; sleep 0.1; done

ask() {
    curl -sS --aws-sigv4 aws:amz:us-east-1:s3 --user key:secret -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' "$@"
}
at=http://127.0.0.1:$port/bucket
ask --fail -X PUT --data-binary bytes "$at/old"
ask --fail -X PUT --data-binary 'was there' "$at/target"
seen=
for name in new target; do
    status=$(ask -o "$work/answer" -w '%{http_code}' -X PUT -H 'x-amz-rename-source: /bucket/old' \
        -H 'content-length: 0' "$at/$name?renameObject=")
    seen+="${seen:+; }$status $(ask "$at/old" | wc -c) $(ask "$at/$name" | wc -c)"
done
echo "$seen"
[ "$seen" = '200 5 0; 200 5 0' ]
