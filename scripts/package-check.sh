#!/usr/bin/env bash
# usage: scripts/package-check.sh [KIND...]
#
# Shows that the same commit gives the same packages: makes them a second time in a clone at another
# path, in another time zone and language, with another mask, and as root under another host name,
# and compares the bytes with those in target/package. What is there counts when it was made of this
# very commit, without a change; otherwise it is made first. A build takes 6 minutes on two idle cores
# for each of the two C libraries, so this takes up to 24, and half of that after `make package`.
# Where the bytes differ, both trees stay, and the exit status is 1.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- deb rpm static
here=$PWD/target/package
commit=$(git rev-parse HEAD)

say() { printf 'package-check: %s\n' "$*" >&2; }

[ -z "$(git status --porcelain --untracked-files=no)" ] || { say 'there are uncommitted changes'; exit 2; }
if [ "$(cat "$here/made-of" 2>/dev/null)" = "$commit $*" ]; then
    say "$here was made of ${commit:0:12} already"
else
    scripts/package.sh "$@" >/dev/null
fi

there=$here/check/a-path-that-is-longer-than-that-of-the-first-build
rm -rf "$here/check"
git clone -q . "$there"
git -C "$there" checkout -q "$commit"
# Under another name the machine leaves its name where packages have one.
renamed=()
[ "$(id -u)" != 0 ] || renamed=(unshare -u sh -c 'hostname another-machine && exec "$@"' -)
begin=$SECONDS
(
    cd "$there"
    umask 077
    export TZ=Asia/Kathmandu LC_ALL=C.UTF-8 PAGEWELL_PACKAGE_TOOLS=$here/tools
    exec "${renamed[@]}" scripts/package.sh "$@" >/dev/null
)
say "made again in $((SECONDS - begin)) s"

failed=0
same=0
while read -r _ name; do
    if cmp -s "$here/$name" "$there/target/package/$name"; then
        same=$((same + 1))
    else
        say "differs: $name ($here, $there/target/package)"
        failed=$((failed + 1))
    fi
done <"$here/SHA256SUMS"
[ $failed -gt 0 ] || rm -rf "$here/check"
echo "package-check: $same packages have the same bytes, $failed differ"
[ $failed = 0 ]
