#!/usr/bin/env bash
# mount.nfs (nfs-utils 2.6.2) with vers=3 and both ports given asks the port mapper all the same,
# unless proto= is given, too. nfs(5) says of port= and mountport= only that the port mapper is asked
# where they are not given. So a mount fails where no port mapper is reached, although nothing that
# one could tell is missing.
#
# Run as root, on Debian 12. Seen, in a network of its own with a port mapper that counts:
#   vers=3,nolock,port=20490,mountport=20490             2 calls, "Connection refused"
#   proto=tcp,vers=3,nolock,port=20490,mountport=20490   none, straight to mount(2)
# Exits with 1 when that changes.
set -euo pipefail
package=nfs-common version=1:2.6.2-4+deb12u1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
(cd "$work" && apt-get -qq -o APT::Sandbox::User=root download "$package=$version" && dpkg -x ./*.deb .)
helper=$work/sbin/mount.nfs
[ -x "$helper" ] || helper=$work/usr/sbin/mount.nfs
echo "mount.nfs: $("$helper" -V)"

# A port mapper that knows nothing: it counts connections, and closes them.
cat >"$work/mapper.py" <<'END'
import socket, sys, threading
server = socket.create_server(("127.0.0.1", 111))
print("ready", flush=True)
while True:
    server.accept()[0].close()
    with open(sys.argv[1], "a") as calls:
        calls.write("x")
END
cat >"$work/inside.sh" <<'END'
ip link set lo up
: >"$2/calls"
python3 "$2/mapper.py" "$2/calls" >"$2/ready" &
mapper=$!
until grep -q ready "$2/ready"; do sleep 0.1; done
mkdir -p "$2/mnt"
timeout 60 "$1" 127.0.0.1:/data "$2/mnt" -o "$3,soft,retry=0,timeo=5,retrans=1" 2>&1 | head -n 1 | sed 's/^/  /'
kill "$mapper"
wc -c <"$2/calls" >"$2/count"
END
calls() { # OPTIONS
    echo "$1:"
    unshare -n -m bash "$work/inside.sh" "$helper" "$work" "$1"
    count=$(cat "$work/count")
    echo "  calls to the port mapper by TCP: $count"
}
ports=vers=3,nolock,port=20490,mountport=20490
calls "$ports"
without=$count
calls "proto=tcp,$ports"
with=$count
if [ "$without" -gt 0 ] && [ "$with" = 0 ]; then
    echo 'as before: both ports are given, and without proto= the port mapper is asked'
else
    echo 'changed'
    exit 1
fi
