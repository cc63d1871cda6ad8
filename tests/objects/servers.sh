#!/usr/bin/env bash
# Other people's object and web servers: installs them, each at one version, below
# ${CARGO_TARGET_DIR:-target}/objects and never into the system, and serves a folder with one.
#
# usage: tests/objects/servers.sh list                            names, one a line: `s3 NAME`, `az NAME`,
#                                                                 `gs NAME`, `web NAME`, `peer NAME` (no server)
#        tests/objects/servers.sh install NAME...
#        tests/objects/servers.sh installed NAME                  status 0 if it is there
#        tests/objects/servers.sh version NAME
#        tests/objects/servers.sh run [--stdin] [--port PORT] NAME FOLDER [BUCKET]
#
# `run` serves on a port of 127.0.0.1, a free one if none is named, makes the bucket ("bucket" if
# none is named), prints `ready http://127.0.0.1:PORT` when the server answers, and runs until it is
# ended by SIGTERM, with --stdin also when its standard input ends; then it ends the processes that
# it started. The keys of all are the dummies below. moto and fake-gcs-server keep their objects in memory, all
# others in FOLDER. s3mock cannot be kept from listening on all addresses. seaweedfs-cluster is a master, three
# volume servers with two copies of everything, and two filers, the second of which speaks S3 at
# PORT + 7.
#
# Exit status 77, with a reason: it cannot be had on this machine.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
store=$(realpath -m "${CARGO_TARGET_DIR:-target}/objects")
PATH=$PATH:/usr/sbin:/sbin:/usr/local/go/bin
export LC_ALL=C.UTF-8

ACCESS_KEY=pagewell-test
SECRET_KEY=pagewell-test-secret
# Of Azure, whose keys are of base 64.
ACCOUNT=pagewelltest
ACCOUNT_KEY=cGFnZXdlbGwtdGVzdC1zZWNyZXQ=
# Nothing is asked for what no file and no variable gives.
export AWS_ACCESS_KEY_ID=$ACCESS_KEY AWS_SECRET_ACCESS_KEY=$SECRET_KEY AWS_EC2_METADATA_DISABLED=true

# kind, name, version, how it comes; Debian's are those of this system's release.
TABLE='
s3  versitygw 1.8.0    go
s3  rclone    1.76.0   go
s3  moto      5.2.5    pip
s3  s3mock    5.2.0    maven
s3  seaweedfs 20261109 go
s3  seaweedfs-cluster 20261109 go
web nginx     -        debian
web apache    -        debian
web lighttpd  -        debian
web busybox   -        debian
web caddy     2.11.9   go
web python    -        system
az  azurite   3.37.0   npm
gs  fake-gcs-server 1.56.1 go
peer s3fs     -        debian
peer haproxy  -        debian
peer mountpoint-s3 0.11.0 cargo
'

say() { printf 'objects: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }
missing() { say "$@"; exit 77; }
column() { awk -v name="$1" -v column="$2" '$2 == name { print $column }' <<<"$TABLE"; }

# --- installing -----------------------------------------------------------------------------

need() { command -v "$1" >/dev/null || missing "$2 needs $1"; }

# go_program NAME MODULE@VERSION PACKAGE...: builds a program of these packages; the last one is that
# of its command. With the parts that are needed it is built in a fraction of the time.
go_program() {
    local name=$1 module=$2 main=$3
    need go "$name"
    mkdir -p "$store/$name"
    rm -rf "$store/$name/source"
    mkdir "$store/$name/source"
    (
        cd "$store/$name/source"
        printf '%s\n' "$main" >main.go
        go mod init served
        if [ -n "${replace-}" ]; then go mod edit -replace "$replace"; fi
        go get "$module"
        [ -n "${replace-}" ] || go mod tidy
        go build -trimpath -ldflags=-s -o "$store/$name/$name" .
    ) >"$store/$name/log" 2>&1 ||
        { tail -n 20 "$store/$name/log" >&2; die "$name cannot be built; see $store/$name/log"; }
    rm -rf "$store/$name/source"
}

# go_command NAME PACKAGE@VERSION: builds a program as it is.
go_command() {
    need go "$1"
    mkdir -p "$store/$1"
    GOBIN=$store/$1 go install -trimpath -ldflags=-s "$2" >"$store/$1/log" 2>&1 ||
        { tail -n 20 "$store/$1/log" >&2; die "$1 cannot be built; see $store/$1/log"; }
}

install_versitygw() { go_command versitygw github.com/versity/versitygw/cmd/versitygw@v1.8.0; }

# Also what a benchmark of rclone needs: its mount, its NFS server, its S3 client.
install_rclone() {
    go_program rclone github.com/rclone/rclone@v1.76.0 'package main

import (
	_ "github.com/rclone/rclone/backend/local"
	_ "github.com/rclone/rclone/backend/s3"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/mount"
	_ "github.com/rclone/rclone/cmd/serve/nfs"
	_ "github.com/rclone/rclone/cmd/serve/s3"
	_ "github.com/rclone/rclone/cmd/version"
)

func main() { cmd.Main() }'
}

install_fake-gcs-server() {
    go_command fake-gcs-server github.com/fsouza/fake-gcs-server@v1.56.1
}

install_caddy() {
    go_program caddy github.com/caddyserver/caddy/v2@v2.11.9 'package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/encode/gzip"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/encode/zstd"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
)

func main() { caddycmd.Main() }'
}

# A quarter of an hour: it holds the clients of many databases. Its own command cannot be installed by
# its module, which replaces a dependency.
install_seaweedfs() {
    export GOFLAGS="${GOFLAGS-} -mod=mod"
    replace=github.com/tyler-smith/go-bip39=github.com/cosmos/go-bip39@v1.0.0 go_program seaweedfs \
        github.com/seaweedfs/seaweedfs/weed/command@v0.0.0-20261109003541-7506e5f91cd6 'package main

import (
	"embed"
	"os"

	"github.com/seaweedfs/seaweedfs/weed/command"
	weed_server "github.com/seaweedfs/seaweedfs/weed/server"
	util_http "github.com/seaweedfs/seaweedfs/weed/util/http"
)

var static embed.FS

func main() {
	weed_server.StaticFS = static
	util_http.InitGlobalHttpClient()
	for _, it := range command.Commands {
		if it.Name() == os.Args[1] && it.Run != nil {
			it.Flag.Parse(os.Args[2:])
			it.Run(it, it.Flag.Args())
		}
	}
}'
}

install_seaweedfs-cluster() {
    install seaweedfs
    mkdir -p "$store/seaweedfs-cluster"
}

install_moto() {
    need python3 moto
    python3 -m venv "$store/moto" || missing 'moto needs python3-venv'
    "$store/moto/bin/python" -m pip install -q --disable-pip-version-check \
        -r "$here/moto.txt" >&2 || die 'moto cannot be installed'
}

install_s3mock() {
    need mvn s3mock && need java s3mock
    mkdir -p "$store/s3mock"
    mvn -q -B dependency:copy -Dartifact=com.adobe.testing:s3mock:5.2.0:jar:exec \
        -DoutputDirectory="$store/s3mock" >"$store/s3mock/log" 2>&1 ||
        { tail -n 20 "$store/s3mock/log" >&2; die 's3mock cannot be installed'; }
}

# It says that it wants node 22, and runs on 20; nothing of it runs while it is installed.
install_azurite() {
    need npm azurite && need node azurite && need openssl azurite
    mkdir -p "$store/azurite"
    npm install --prefix "$store/azurite" --no-audit --no-fund --no-progress --ignore-scripts \
        azurite@3.37.0 >"$store/azurite/log" 2>&1 ||
        { tail -n 20 "$store/azurite/log" >&2; die 'azurite cannot be installed'; }
}

# Ten minutes, most of them for its client, which is C. Its own command is not in the registry, so ours
# calls its library; its dependencies are those that it was released with.
install_mountpoint-s3() {
    local source=$store/mountpoint-s3/source program
    for program in cargo cc cmake pkg-config python3; do need "$program" mountpoint-s3; done
    from_debian mountpoint-s3 libfuse3-dev
    cp -r "$here/mountpoint-s3" "$source"
    python3 -m venv "$source/clang" || missing 'mountpoint-s3 needs python3-venv'
    (
        cd "$source"
        # What bindgen loads, and the headers of its compiler.
        clang/bin/python -m pip install -q --disable-pip-version-check libclang==18.1.1
        LIBCLANG_PATH=$(dirname "$PWD"/clang/lib/*/site-packages/clang/native/libclang.so)
        BINDGEN_EXTRA_CLANG_ARGS=-I$(cc -print-file-name=include)
        PKG_CONFIG_PATH=$(echo "$store"/mountpoint-s3/root/usr/lib/*/pkgconfig)
        export LIBCLANG_PATH BINDGEN_EXTRA_CLANG_ARGS PKG_CONFIG_PATH
        export PKG_CONFIG_SYSROOT_DIR=$store/mountpoint-s3/root CARGO_TARGET_DIR=$source/target
        cat >Cargo.toml <<END
[package]
name = "mount-s3"
edition = "2024"
[workspace]
[dependencies]
mountpoint-s3-fs = "=0.11.0"
mountpoint-s3-client = "=0.22.0"
END
        cargo fetch --quiet
        cp "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/mountpoint-s3-fs-0.11.0/Cargo.lock .
        cargo build --release
        cp target/release/mount-s3 "$store/mountpoint-s3/"
    ) >"$store/mountpoint-s3/log" 2>&1 ||
        { tail -n 20 "$store/mountpoint-s3/log" >&2; die 'mountpoint-s3 cannot be built'; }
    rm -rf "$source"
}

# Packages of this system's release, unpacked.
from_debian() { # NAME PACKAGE...
    local name=$1
    shift
    need apt-get "$name" && need dpkg-deb "$name"
    mkdir -p "$store/$name/packages"
    (
        cd "$store/$name/packages"
        # Without a user of its own that must read this folder.
        apt-get -q -o APT::Sandbox::User=root download "$@" >../log 2>&1 ||
            { apt-get -q update >../log 2>&1 &&
                apt-get -q -o APT::Sandbox::User=root download "$@" >../log 2>&1; }
    ) || { tail -n 5 "$store/$name/log" >&2; missing "$name cannot be downloaded"; }
    for package in "$store/$name/packages"/*.deb; do
        dpkg-deb -x "$package" "$store/$name/root"
    done
    for package in "$store/$name/packages/$1"_*.deb; do
        dpkg-deb -f "$package" Version >"$store/$name/version"
    done
    rm -r "$store/$name/packages"
}

install_nginx() { from_debian nginx nginx; }
install_apache() { from_debian apache apache2-bin libapr1 libaprutil1; }
install_lighttpd() { from_debian lighttpd lighttpd; }
install_busybox() { from_debian busybox busybox; }
install_s3fs() { from_debian s3fs s3fs libfuse2; }
install_haproxy() { from_debian haproxy haproxy liblua5.3-0 libopentracing1 libopentracing-c-wrapper0; }
install_python() { need python3 python; }

is_installed() { # NAME
    [ "$1" = python ] || [ -e "$store/$1/installed-$(column "$1" 3)" ]
}

install() { # NAME
    [ -n "$(column "$1" 1)" ] || die "no server '$1'"
    ! is_installed "$1" || return 0
    say "installing $1"
    rm -rf "${store:?}/$1"
    "install_$1"
    [ "$1" = python ] || : >"$store/$1/installed-$(column "$1" 3)"
}

version() { # NAME
    local stated
    stated=$(column "$1" 3)
    case $1 in
        # Its server is the same in all that are about.
        python) echo 3 ;;
        *) if [ "$stated" = - ]; then sed 's/-.*//; s/^.*://' "$store/$1/version"; else echo "$stated"; fi ;;
    esac
}

# --- running --------------------------------------------------------------------------------

is_listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; } # PORT

free_port() {
    local port
    while port=$((10000 + RANDOM % 10000)); is_listening "$port"; do :; done
    echo "$port"
}

# ask PORT METHOD TARGET [HEADER...]: the first line of the answer, or nothing; with `body` as its body.
ask() {
    local head line body=${body-}
    head="$2 $3 HTTP/1.1\r\nHost: 127.0.0.1:$1\r\nContent-Length: ${#body}\r\n"
    for line in "${@:4}"; do head+="$line\r\n"; done
    head+="Connection: close\r\n\r\n$body"
    (
        exec 3<>"/dev/tcp/127.0.0.1/$1"
        printf '%b' "$head" >&3
        IFS= read -r -t 30 line <&3
        printf '%s\n' "$line"
    ) 2>/dev/null || true
}

configure_nginx() {
    cat >"$work/nginx.conf" <<END
daemon off;
user root;
worker_processes 1;
error_log stderr;
pid $work/nginx.pid;
events {}
http {
    access_log off;
    default_type application/octet-stream;
    client_body_temp_path $work/body;
    proxy_temp_path $work/proxy;
    fastcgi_temp_path $work/fastcgi;
    uwsgi_temp_path $work/uwsgi;
    scgi_temp_path $work/scgi;
    server {
        listen 127.0.0.1:$port;
        root $folder;
        autoindex on;
        autoindex_format json;
    }
}
END
}

configure_apache() {
    local modules=$store/apache/root/usr/lib/apache2/modules
    cat >"$work/apache.conf" <<END
ServerRoot $work
ServerName 127.0.0.1
Listen 127.0.0.1:$port
PidFile $work/apache.pid
ErrorLog /dev/stderr
LoadModule mpm_event_module $modules/mod_mpm_event.so
LoadModule authz_core_module $modules/mod_authz_core.so
LoadModule mime_module $modules/mod_mime.so
LoadModule dav_module $modules/mod_dav.so
LoadModule dav_fs_module $modules/mod_dav_fs.so
TypesConfig /dev/null
DavLockDB $work/locks
DocumentRoot $folder
<Directory $folder>
    Dav On
    Require all granted
</Directory>
END
    # As root it serves as another user, who must be able to reach both.
    [ "$(id -u)" != 0 ] || { echo 'User nobody'; echo 'Group nogroup'; } >>"$work/apache.conf"
    chmod 777 "$work"
}

configure_lighttpd() {
    cat >"$work/lighttpd.conf" <<END
server.bind = "127.0.0.1"
server.port = $port
server.document-root = "$folder"
server.errorlog = "$work/lighttpd.log"
server.modules = ( "mod_dirlisting" )
dir-listing.activate = "enable"
# Else a file that was replaced is served for a second more.
server.stat-cache-engine = "disable"
mimetype.assign = ( "" => "application/octet-stream" )
END
}

configure_seaweedfs-cluster() { configure_seaweedfs; }
configure_seaweedfs() {
    cat >"$work/keys.json" <<END
{"identities": [{"name": "test", "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    "credentials": [{"accessKey": "$ACCESS_KEY", "secretKey": "$SECRET_KEY"}]}]}
END
}

# Starts all parts of a cluster and waits for them; each has its port and one for gRPC.
serve_cluster() {
    local weed=$store/seaweedfs/seaweedfs addresses='-ip=127.0.0.1 -ip.bind=127.0.0.1' number
    local master=127.0.0.1:$((port + 1))
    trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
    trap 'exit 0' TERM
    mkdir -p "$folder"/{master,volume1,volume2,volume3,filer1,filer2}
    # shellcheck disable=SC2086
    {
        (become "$weed" master $addresses "-port=$((port + 1))" "-mdir=$folder/master" \
            -volumeSizeLimitMB=64 -defaultReplication=001) &
        for number in 1 2 3; do
            (become "$weed" volume $addresses "-port=$((port + 1 + number))" "-master=$master" \
                "-dir=$folder/volume$number" -max=100) &
        done
        for number in 1 2; do
            (become "$weed" filer $addresses "-port=$((port + 4 + number))" "-master=$master" \
                "-defaultStoreDir=$folder/filer$number" -s3=true \
                "-s3.port=$((port + 7 * (number - 1)))" -s3.port.iceberg=0 -s3.port.lance=0 \
                "-s3.config=$work/keys.json") &
        done
    }
    wait
}

# Becomes a program, which ends with this script however that ends.
become() {
    ! command -v setpriv >/dev/null || set -- setpriv --pdeathsig TERM "$@"
    exec "$@"
}

# Becomes the server.
serve() {
    local root=$store/$name/root
    export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu:$root/usr/lib/aarch64-linux-gnu
    export HOME=$work XDG_CACHE_HOME=$work XDG_CONFIG_HOME=$work XDG_DATA_HOME=$work
    case $name in
        versitygw)
            become "$store/$name/versitygw" --port "127.0.0.1:$port" --keep-alive --quiet \
                --access "$ACCESS_KEY" --secret "$SECRET_KEY" posix "$folder"
            ;;
        rclone)
            become "$store/$name/rclone" serve s3 "$folder" --addr "127.0.0.1:$port" \
                --auth-key "$ACCESS_KEY,$SECRET_KEY"
            ;;
        seaweedfs)
            become "$store/$name/seaweedfs" server "-dir=$folder" -ip=127.0.0.1 -ip.bind=127.0.0.1 \
                "-master.port=$((port + 1))" -master.volumeSizeLimitMB=64 \
                "-volume.port=$((port + 2))" -volume.max=100 -filer=true \
                "-filer.port=$((port + 3))" -s3=true "-s3.port=$port" -s3.port.iceberg=0 \
                -s3.port.lance=0 "-s3.config=$work/keys.json"
            ;;
        seaweedfs-cluster) serve_cluster ;;
        azurite)
            export AZURITE_ACCOUNTS=$ACCOUNT:$ACCOUNT_KEY
            become node "$store/azurite/node_modules/azurite/dist/src/blob/main.js" \
                --blobHost 127.0.0.1 --blobPort "$port" --location "$folder" --silent --disableTelemetry
            ;;
        fake-gcs-server)
            become "$store/$name/fake-gcs-server" -backend memory -scheme http -host 127.0.0.1 \
                -port "$port" -public-host "127.0.0.1:$port" -external-url "http://127.0.0.1:$port"
            ;;
        moto) become "$store/$name/bin/moto_server" -H 127.0.0.1 -p "$port" ;;
        s3mock)
            become java -Xmx512m -jar "$store/$name/s3mock-5.2.0-exec.jar" --server.address=127.0.0.1 \
                --server.port=0 "--com.adobe.testing.s3mock.httpPort=$port" \
                "--com.adobe.testing.s3mock.store.root=$folder"
            ;;
        nginx) become "$root/usr/sbin/nginx" -p "$work" -c "$work/nginx.conf" -e stderr ;;
        apache) become "$root/usr/sbin/apache2" -f "$work/apache.conf" -D FOREGROUND ;;
        lighttpd)
            become "$root/usr/sbin/lighttpd" -D -f "$work/lighttpd.conf" -m "$root/usr/lib/lighttpd"
            ;;
        busybox) become "$root/bin/busybox" httpd -f -p "127.0.0.1:$port" -h "$folder" ;;
        caddy) become "$store/$name/caddy" file-server --root "$folder" --listen "127.0.0.1:$port" ;;
        python) become python3 -m http.server "$port" --bind 127.0.0.1 --directory "$folder" ;;
        *) die "no way to run '$name'" ;;
    esac
}

server=
work=
finish() {
    local status=$?
    trap - EXIT
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        # A last resort: those that take their time are ended for sure.
        for _ in {1..300}; do
            kill -0 "$server" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    [ -z "$work" ] || rm -rf "$work"
    exit "$status"
}

# Starts the server on a port; an error when it ends before it answers.
start() {
    port=${fixed_port:-$(free_port)}
    [ "$(type -t "configure_$name")" != function ] || "configure_$name"
    serve >"$work/log" 2>&1 <&- &
    server=$!
    for _ in {1..1200}; do
        [[ $(ask "$port" GET /) != HTTP/1.* ]] || return 0
        kill -0 "$server" 2>/dev/null || { server=; return 1; }
        sleep 0.1
    done
    return 1
}

# Its request has to be signed.
make_container() {
    local date key path=/$ACCOUNT/$bucket signature version=2024-11-04
    date=$(date -u '+%a, %d %b %Y %H:%M:%S GMT')
    key=$(base64 -d <<<"$ACCOUNT_KEY")
    # The method, and eleven headers that it has not.
    signature=$({
        printf 'PUT\n\n\n\n\n\n\n\n\n\n\n\n'
        printf 'x-ms-date:%s\nx-ms-version:%s\n' "$date" "$version"
        printf '/%s%s\nrestype:container' "$ACCOUNT" "$path"
    } | openssl dgst -sha256 -hmac "$key" -binary | base64)
    [[ $(ask "$port" PUT "$path?restype=container" "x-ms-date: $date" "x-ms-version: $version" \
        "Authorization: SharedKey $ACCOUNT:$signature") == HTTP/1.?\ 201* ]] || die 'no container'
}

make_bucket() {
    case $name in
        versitygw | rclone) mkdir -p "$folder/$bucket" ;;
        seaweedfs)
            [[ $(ask "$((port + 3))" POST "/buckets/$bucket/") == HTTP/1.?\ 201* ]] || die 'no bucket'
            ;;
        seaweedfs-cluster)
            # Until the first filer knows a volume server.
            for _ in {1..300}; do
                [[ $(ask "$((port + 5))" POST "/buckets/$bucket/") != HTTP/1.?\ 201* ]] || return 0
                sleep 0.1
            done
            die 'no bucket'
            ;;
        azurite) make_container ;;
        fake-gcs-server)
            [[ $(body="{\"name\": \"$bucket\"}" ask "$port" POST /storage/v1/b \
                'Content-Type: application/json') == HTTP/1.?\ 200* ]] || die 'no bucket'
            ;;
        moto | s3mock) [[ $(ask "$port" PUT "/$bucket") == HTTP/1.?\ 200* ]] || die 'no bucket' ;;
    esac
}

run() { # [--stdin] [--port PORT] NAME FOLDER [BUCKET]
    local until_end= fixed_port=
    [ "$1" != --stdin ] || { until_end=yes; shift; }
    [ "$1" != --port ] || { fixed_port=$2; shift 2; }
    name=$1 folder=$(realpath "$2") bucket=${3-bucket}
    is_installed "$name" || missing "$name is not installed"
    exec 4<&0
    trap finish EXIT
    trap 'exit 0' TERM INT
    work=$(mktemp -d)
    # Another program may have taken the port meanwhile.
    start || start || { tail -n 20 "$work/log" >&2; die "$name does not start"; }
    make_bucket
    echo "ready http://127.0.0.1:$port"
    if [ -n "$until_end" ]; then
        while read -r _ <&4; do :; done
    else
        wait "$server"
    fi
}

case ${1-} in
    list) awk 'NF { print $1, $2 }' <<<"$TABLE" ;;
    install)
        shift
        mkdir -p "$store"
        exec 9>"$store/lock"
        flock 9
        for name in "$@"; do install "$name"; done
        ;;
    installed) is_installed "${2-}" ;;
    version) version "${2-}" ;;
    run) shift; run "$@" ;;
    *) sed -n '5,9s/^# //p' "$0" >&2; exit 2 ;;
esac
