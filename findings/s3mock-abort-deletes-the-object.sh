#!/usr/bin/env bash
# S3Mock 5.2.0 (com.adobe.testing:s3mock): AbortMultipartUpload deletes the object that has the key of
# the upload. In S3 an upload that is given up leaves what was there; a program that replaces an object
# in parts, fails, and gives up its upload, as it should, finds the object gone.
#
# An object is put, an upload of the same key begun and aborted, without any part; then the object is
# read. Seen: "PUT 200, GET 200, CreateMultipartUpload 200, AbortMultipartUpload 204, GET 404". Exit
# status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
mvn -q -B dependency:copy -Dartifact=com.adobe.testing:s3mock:5.2.0:jar:exec \
    -DoutputDirectory="$work" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
mkdir "$work/store"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
java -jar "$work/s3mock-5.2.0-exec.jar" --server.address=127.0.0.1 --server.port=0 \
    "--com.adobe.testing.s3mock.httpPort=$port" "--com.adobe.testing.s3mock.store.root=$work/store" \
    >"$work/log" 2>&1 &
server=$!
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do kill -0 "$server"; sleep 0.1; done

python3 - "$port" <<'END' | tee "$work/seen"
import http.client, re, sys

def ask(method, target, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
    connection.request(method, target, body)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()

ask("PUT", "/bucket")
put, _ = ask("PUT", "/bucket/key", b"bytes")
before, _ = ask("GET", "/bucket/key")
create, text = ask("POST", "/bucket/key?uploads", b"")
upload = re.search("<UploadId>(.*)</UploadId>", text).group(1)
abort, _ = ask("DELETE", f"/bucket/key?uploadId={upload}")
after, _ = ask("GET", "/bucket/key")
print(
    f"PUT {put}, GET {before}, CreateMultipartUpload {create}, AbortMultipartUpload {abort}, "
    f"GET {after}"
)
END
[ "$(cat "$work/seen")" = \
    'PUT 200, GET 200, CreateMultipartUpload 200, AbortMultipartUpload 204, GET 404' ]
