#!/usr/bin/env bash
# versitygw 1.8.0 over a folder (posix): a file that another program has put into the folder is an object
# without an ETag: the element is empty in listings, the header is missing in HEAD. Versions of it can
# only be told apart by length and by the second of the last change, and If-Match has nothing to say.
#
# Seen: "HEAD 200, ETag None; listed ETag ''; after a PUT through it: HEAD 200, ETag \"781e...\"; listed
# ETag \"781e...\"". Exit status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
GOBIN=$work GOFLAGS=-modcacherw go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
mkdir -p "$work/files/bucket"
printf 0123456789 >"$work/files/bucket/ten"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$work/versitygw" --port "127.0.0.1:$port" --quiet --access key --secret secret posix "$work/files" \
    >>"$work/log" 2>&1 &
server=$!
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do kill -0 "$server"; sleep 0.1; done

python3 - "$port" <<'END' | tee "$work/seen"
import datetime, hashlib, hmac, http.client, re, sys

host = f"127.0.0.1:{sys.argv[1]}"

def ask(method, path, query="", body=b""):
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    names = "host;x-amz-content-sha256;x-amz-date"
    request = f"{method}\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{digest}\n"
    request += f"x-amz-date:{now}\n\n{names}\n{digest}"
    scope = f"{now[:8]}/us-east-1/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = b"AWS4secret"
    for part in [now[:8], "us-east-1", "s3", "aws4_request"]:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    authorization = f"AWS4-HMAC-SHA256 Credential=key/{scope}, SignedHeaders={names}, Signature={signature}"
    connection = http.client.HTTPConnection(host)
    connection.request(method, path + ("?" + query if query else ""), body, {
        "x-amz-date": now, "x-amz-content-sha256": digest, "Authorization": authorization})
    answer = connection.getresponse()
    return answer, answer.read().decode()

def seen():
    head, _ = ask("HEAD", "/bucket/ten")
    _, listing = ask("GET", "/bucket", "list-type=2")
    listed = re.search("<ETag>(.*?)</ETag>", listing)[1].replace("&#34;", '"').replace("&quot;", '"')
    return f"HEAD {head.status}, ETag {head.getheader('ETag')}; listed ETag {listed or repr('')}"

print(seen())
ask("PUT", "/bucket/ten", body=b"0123456789")
print("after a PUT through it:", seen())
END
tag='"781e5e245d69b566979b86e28d23f2c7"'
[ "$(cat "$work/seen")" = "HEAD 200, ETag None; listed ETag ''
after a PUT through it: HEAD 200, ETag $tag; listed ETag $tag" ]
