#!/usr/bin/env bash
# fake-gcs-server 1.56.1 (Go module): a compose and a delete take no notice of ifGenerationMatch, and say
# that they were done. Google answers 412, and keeps what is there. A program whose uploads of large
# objects are composed under a condition passes its tests here and there alike, as long as no other writer
# writes: what would lose the race in Google's store wins it here. An upload of one body is compared.
# The branch of the module compares both since August 2026; no version of it does yet.
#
# An object is made twice; then an upload, a compose and a delete want the generation of the first. Seen:
# "upload 412, compose 200, delete 200". Exit status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
GOBIN=$work go install github.com/fsouza/fake-gcs-server@v1.56.1 >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$work/fake-gcs-server" -backend memory -scheme http -host 127.0.0.1 -port "$port" >"$work/log" 2>&1 &
server=$!
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do kill -0 "$server"; sleep 0.1; done

python3 - "$port" <<'END' | tee "$work/seen"
import http.client, json, sys

def ask(method, target, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
    connection.request(method, target, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    return answer.status, json.loads(text) if text.startswith(b"{") else None

def upload(name, body, condition=""):
    target = f"/upload/storage/v1/b/bucket/o?uploadType=media&name={name}{condition}"
    return ask("POST", target, body)

ask("POST", "/storage/v1/b", json.dumps({"name": "bucket"}))
upload("part", b"bytes")
_, first = upload("key", b"the first")
upload("key", b"the second")
wanted = "ifGenerationMatch=" + first["generation"]
again, _ = upload("key", b"the third", "&" + wanted)
compose = json.dumps({"sourceObjects": [{"name": "part"}], "destination": {}})
composed, _ = ask("POST", f"/storage/v1/b/bucket/o/key/compose?{wanted}", compose)
upload("key", b"the second")
deleted, _ = ask("DELETE", f"/storage/v1/b/bucket/o/key?{wanted}")
print(f"upload {again}, compose {composed}, delete {deleted}")
END
[ "$(cat "$work/seen")" = 'upload 412, compose 200, delete 200' ]
