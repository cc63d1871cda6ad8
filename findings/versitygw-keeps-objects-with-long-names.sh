#!/usr/bin/env bash
# versitygw 1.8.0 over a folder (posix): an object whose name has more than 227 bytes behind its last slash
# can be put once and never replaced: each further PUT is answered with 409 ExistingObjectIsDirectory,
# although no directory is about, and the first bytes stay. S3 and the file system take 255 bytes there. An
# object is replaced by way of a name that has 28 bytes more (".NAME.sgwtmp." and the time in nanoseconds),
# which is too long for the file system. So a program that makes an empty object and writes it afterwards
# keeps an empty one. It does not happen with --disableotmp.
#
# Each object is put with "first", put with "second", and read. Seen: "227 bytes: 200, 200, second;
# 228 bytes: 200, 409 ExistingObjectIsDirectory, first; 255 bytes: 200, 409 ExistingObjectIsDirectory,
# first". Exit status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
GOBIN=$work GOFLAGS=-modcacherw go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
mkdir -p "$work/files/bucket"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
setpriv --pdeathsig TERM "$work/versitygw" --port "127.0.0.1:$port" --quiet --access key --secret secret \
    posix "$work/files" >>"$work/log" 2>&1 &
server=$!
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do kill -0 "$server"; sleep 0.1; done

ask() { # NAME ARGUMENT...
    local name=$1
    shift
    curl -sS --aws-sigv4 aws:amz:us-east-1:s3 --user key:secret \
        -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' "$@" "http://127.0.0.1:$port/bucket/$name"
}
put() { # NAME BYTES: the status, and the code of an error.
    local status code
    status=$(ask "$1" -X PUT --data-binary "$2" -o "$work/answer" -w '%{http_code}')
    code=$(sed -n 's/.*<Code>\(.*\)<\/Code>.*/ \1/p' "$work/answer")
    printf '%s%s' "$status" "$code"
}
seen=
for length in 227 228 255; do
    name=$(printf "%${length}s" '' | tr ' ' n)
    first=$(put "$name" first)
    second=$(put "$name" second)
    seen+="${seen:+; }$length bytes: $first, $second, $(ask "$name")"
done
echo "$seen"
[ "$seen" = '227 bytes: 200, 200, second; 228 bytes: 200, 409 ExistingObjectIsDirectory, first; 255 bytes: 200, 409 ExistingObjectIsDirectory, first' ]
