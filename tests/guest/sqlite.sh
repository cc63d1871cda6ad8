#!/usr/bin/env bash
# Builds SQLite's own test programs, which no package holds, from the distribution's source of
# SQLite, and prints their directory, target/guest/sqlite: mptest (several processes use one
# database, some end without a word) with its scripts, and speedtest1 (which can verify what it
# reads). Nothing is installed; a second run finds them there.
#
# The source comes from where this machine has its SQLite from. Status 77 with a reason: it
# cannot be had.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Scenarios run side by side; the second finds what the first has made.
mkdir -p target/guest
exec 9>"target/guest/sqlite.lock"
flock 9
store=$PWD/target/guest/sqlite

if [ -e "$store/complete" ]; then
    echo "$store"
    exit 0
fi

rm -rf "$store"
mkdir -p "$store/source/lists/partial"
cd "$store/source"
give_up() { echo "sqlite: $*" >&2; exit 77; }

# '        500 URL SUITE/COMPONENT ARCHITECTURE Packages' of the version that is installed.
origin=$(apt-cache policy sqlite3 2>/dev/null |
    awk '$1 == "***" { here = 1; next } here && $NF == "Packages" { print $2, $3; exit }')
[ -n "$origin" ] || give_up 'it is not known where the package sqlite3 came from'
read -r url place <<<"$origin"
echo "deb-src $url ${place%/*} ${place##*/}" >sources.list
private=(apt-get -q -o "Dir::Etc::SourceList=$PWD/sources.list" -o Dir::Etc::SourceParts=-
    -o "Dir::State::Lists=$PWD/lists" -o APT::Sandbox::User= -o Debug::NoLocking=1)
"${private[@]}" update >log 2>&1 || { cat log >&2; give_up 'no index of sources'; }
"${private[@]}" source --download-only --tar-only sqlite3 >log 2>&1 ||
    { cat log >&2; give_up 'no source'; }
tar xf sqlite3_*.orig.tar.xz --strip-components=1 --wildcards \
    '*/mptest/*' '*/test/speedtest1.c'
# Their patience is for machines that are not emulated.
sed -i -E 's/^#define DEFAULT_TIMEOUT 10000$/#define DEFAULT_TIMEOUT 200000/
    s/(nArg>=2 \? atoi\(azArg\[1\]\) : )10000/\1200000/
    s/(waitForClient\(0, )2000(, "during shutdown)/\1200000\2/
    s/^( +iTimeout = )1000;$/\1200000;/' mptest/mptest.c
# A newer version that writes one of them in another way is seen here, not in a test's timeout.
if [ "$(grep -c 200000 mptest/mptest.c)" != 5 ]; then
    echo 'sqlite: not all of the patience of mptest could be raised' >&2
    exit 1
fi
cc -O1 -o "$store/mptest" mptest/mptest.c -lsqlite3 -lm
cc -O1 -o "$store/speedtest1" test/speedtest1.c -lsqlite3 -lm
cp mptest/*.test mptest/*.subtest "$store/"
cd "$store"
rm -rf source
touch complete
echo "$store"
