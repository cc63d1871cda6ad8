#!/usr/bin/env bash
# s3fs 1.90 (Debian 12) takes the fraction of x-amz-meta-mtime for a count of nanoseconds, whatever the
# number of its digits. It writes nine digits itself. rclone 1.76.0 keeps the same header, as decimal
# seconds without zeros at the end: what it has put at half past a second is shown by s3fs at 5 ns past
# it, and only times with nine digits are the same.
#
# Run as root, with /dev/fuse: rclone puts two files, s3fs one, into a bucket of versitygw 1.8.0; then s3fs
# shows all. Seen, as time set, header, time shown:
#   rclone: 1795839036.5, 1795839036.5, 1795839036.000000005
#   rclone: 1795839036.123456789, 1795839036.123456789, 1795839036.123456789
#   s3fs: 1795839036.5, 1795839036.500000000, 1795839036.500000000
# Exit status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
server=
mounted=
finish() {
    if [ -n "$mounted" ]; then
        umount "$work/mnt" || kill "$mounted" || true
        wait "$mounted" || true
    fi
    [ -z "$server" ] || kill "$server"
    rm -rf --one-file-system "$work"
}
trap finish EXIT
cat >"$work/main.go" <<'GO'
package main

import (
	_ "github.com/rclone/rclone/backend/local"
	_ "github.com/rclone/rclone/backend/s3"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/copy"
)

func main() { cmd.Main() }
GO
(
    cd "$work"
    apt-get -q -o APT::Sandbox::User=root download s3fs=1.90-1 libfuse2
    for package in ./*.deb; do dpkg-deb -x "$package" root; done
    GOBIN=$work GOFLAGS=-modcacherw go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
    go mod init served
    go get github.com/rclone/rclone@v1.76.0
    go mod tidy
    go build -o rclone .
) >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
export XDG_CACHE_HOME=$work/cache XDG_CONFIG_HOME=$work/config
mkdir -p "$work/files/bucket" "$work/mnt" "$work/put"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
setpriv --pdeathsig TERM "$work/versitygw" --port "127.0.0.1:$port" --quiet --access key --secret secret \
    posix "$work/files" >>"$work/log" 2>&1 &
server=$!
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do kill -0 "$server"; sleep 0.1; done

touch -d @1795839036.5 "$work/put/half"
touch -d @1795839036.123456789 "$work/put/nine"
"$work/rclone" copy "$work/put" :s3:bucket --s3-provider Other --s3-endpoint "http://127.0.0.1:$port" \
    --s3-access-key-id key --s3-secret-access-key secret --s3-no-check-bucket 2>>"$work/log" ||
    { cat "$work/log"; exit 1; }
(umask 077 && echo key:secret >"$work/keys")
LD_LIBRARY_PATH=$(dirname "$(find "$work/root" -name libfuse.so.2)") setpriv --pdeathsig TERM \
    "$work/root/usr/bin/s3fs" bucket "$work/mnt" -f -o "passwd_file=$work/keys" \
    -o "url=http://127.0.0.1:$port,use_path_request_style" >>"$work/log" 2>&1 &
mounted=$!
until mountpoint -q "$work/mnt"; do kill -0 "$mounted"; sleep 0.1; done
: >"$work/mnt/own"
touch -d @1795839036.5 "$work/mnt/own"

times() { # NAME: in the header, and as s3fs shows it.
    curl -sS -I --aws-sigv4 aws:amz:us-east-1:s3 --user key:secret \
        -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' "http://127.0.0.1:$port/bucket/$1" |
        sed -n 's/^x-amz-meta-mtime: \([0-9.]*\).*/\1, /Ip' | tr -d '\n'
    stat -c %.9Y "$work/mnt/$1"
}
{
    echo "rclone: 1795839036.5, $(times half)"
    echo "rclone: 1795839036.123456789, $(times nine)"
    echo "s3fs: 1795839036.5, $(times own)"
} | tee "$work/seen"
[ "$(cat "$work/seen")" = 'rclone: 1795839036.5, 1795839036.5, 1795839036.000000005
rclone: 1795839036.123456789, 1795839036.123456789, 1795839036.123456789
s3fs: 1795839036.5, 1795839036.500000000, 1795839036.500000000' ]
