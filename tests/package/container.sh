#!/usr/bin/env bash
# usage: tests/package/container.sh
#
# Builds the container of contrib/Containerfile out of the static program in target/package, and uses
# it as the head of that file says: an ordinary user without capabilities and with a root file system
# that cannot be written. Needs root, podman and crun; nothing is fetched. Images and the network are
# of its own. It takes a few seconds.
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "container: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail 'must be root'
if [ -z "${CONTAINER_INSIDE:-}" ]; then
    exec unshare -m -n --propagation private env CONTAINER_INSIDE=1 "$0"
fi
# crun wants control groups of version 2 alone; they are not used.
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up

static=$(find target/package -maxdepth 1 -name 'pagewell-*-static.tar.xz' -print -quit)
[ -n "$static" ] || fail 'target/package has no static program: scripts/package.sh static'
mkdir -p target/package/test
work=$(mktemp -d "$PWD/target/package/test/XXXXXX")
podman() {
    command podman --root "$work/storage" --runroot "$work/run" --log-level error \
        --cgroup-manager cgroupfs "$@"
}
name=pagewell-test-$$
cleanup() {
    podman rm -f -t 0 "$name" >/dev/null 2>&1 || true
    umount "$work/storage/overlay" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

mkdir -p "$work/context" "$work/data"
cp contrib/Containerfile "$work/context/"
tar -xJf "$static" --strip-components=1 -C "$work/context"
podman build -q -t "$name" "$work/context" >/dev/null || fail 'it does not build'
[ "$(podman inspect --format '{{.Config.User}}' "$name")" = 65532:65532 ] || fail 'it runs as another user'

echo text >"$work/data/file"
chown -R 65532:65532 "$work/data"
install -d -o 65532 -g 65532 -m 700 "$work/state"
common=(--cgroups disabled --network host --read-only --cap-drop all --security-opt no-new-privileges
    --ulimit nofile=1024:1024 --ulimit nproc=1024:1024)
[[ $(podman run --rm "${common[@]}" "$name" --version) == pagewell\ * ]] || fail 'it does not run'
podman run -d --name "$name" "${common[@]}" -v "$work/data:/data" -v "$work/state:/state" "$name" \
    serve --listen 0.0.0.0:2049 --allow 10.0.0.0/8 --state-dir /state /data=/data >/dev/null ||
    fail 'it does not start'
said=
for _ in $(seq 600); do
    said=$(podman logs "$name" 2>&1)
    [[ $said != *"ready nfs://"* ]] || break
    sleep 0.1
done
[[ $said == *"ready nfs://"* ]] || fail "not ready: $said"
process=$(podman inspect --format '{{.State.Pid}}' "$name")
grep -q '^Uid:[[:space:]]*65532[[:space:]]' "/proc/$process/status" || fail 'it runs as another user'
grep -q '^CapEff:[[:space:]]*0000000000000000$' "/proc/$process/status" || fail 'it has capabilities'
pagewell=$work/context/pagewell
[ "$("$pagewell" cat nfs://127.0.0.1:2049/data::/file)" = text ] || fail 'reading fails'
"$pagewell" cp "$work/data/file" nfs://127.0.0.1:2049/data::/copy || fail 'writing fails'
[ "$(stat -c %u "$work/data/copy")" = 65532 ] || fail 'made as another user'
podman stop -t 60 "$name" >/dev/null
[ "$(podman inspect --format '{{.State.ExitCode}}' "$name")" = 0 ] || fail 'it does not end in order'
echo 'container: built, and used as an ordinary user without capabilities'
