#!/usr/bin/env bash
# usage: tests/package/run.sh [SUITE...]
#
# Installs, uses, upgrades and removes the packages of target/package in Debian systems that are
# booted with their systemd (boot.sh): bookworm, which is the oldest one that the packages are
# for, and trixie, or those that are named. Needs root, debootstrap and what boot.sh needs; the
# systems are fetched once, into target/package/roots. It takes a minute for each suite on two cores,
# and two with GUEST=1, which has a Linux kernel in an emulated machine (tests/guest) mount the export
# and work in it, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- bookworm trixie
packages=$PWD/target/package
here=$PWD/tests/package
INCLUDE=systemd,systemd-sysv,dbus,kmod,udev,iproute2,nfs-common,libnfs-utils,fuse3,procps,rpm
RELOADS=${RELOADS:-100}

process=
loads=()
passed=0
not_here=0
cleanup() {
    local load
    for load in "${loads[@]}"; do kill "$load" 2>/dev/null || true; done
    [ -z "$process" ] || kill -s KILL "$process" 2>/dev/null || true
}
trap cleanup EXIT
trap 'exit 143' TERM INT HUP

fail() {
    echo "package: $suite: $*" >&2
    [ -z "$process" ] || inside journalctl -n 40 --no-pager -u pagewell >&2 || true
    exit 1
}
step() {
    passed=$((passed + 1))
    printf 'package: %s: %4d s  %s\n' "$suite" "$SECONDS" "$*"
}
inside() { nsenter -a -r -w -t "$process" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
outside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }

# A system of the suite, as it is without the packages, running as $process. One that cannot be
# fetched or booted here is named, and fails nothing: it says nothing of the packages.
booted() { # ROOT
    local store=$packages/roots/$suite
    if [ "$(cat "$store.complete" 2>/dev/null)" != "$INCLUDE" ]; then
        rm -rf "$store"
        mkdir -p "$packages/roots"
        debootstrap --variant=minbase --include="$INCLUDE" "$suite" "$store" >"$store.log" 2>&1 ||
            { missing "debootstrap: $(tail -n 1 "$store.log")"; return 1; }
        echo "$INCLUDE" >"$store.complete"
    fi
    rm -rf "$1"
    cp -a "$store" "$1"
    process=$("$here/boot.sh" "$1") || { process=; missing 'it cannot be booted'; return 1; }
}
missing() {
    not_here=$((not_here + 1))
    printf 'NOT HERE %s: %s\n' "$suite" "$*"
}

# Every file of the system but what any installation of anything writes.
files() { # ROOT
    (cd "$1" && find . -xdev \( -path ./var/lib/dpkg -o -path ./var/cache -o -path ./var/log \
        -o -path ./run -o -path ./tmp -o -path ./proc -o -path ./sys -o -path ./dev \
        -o -path ./root -o -path ./var/lib/systemd -o -path ./var/tmp -o -path './etc/*-' \
        -o -path ./srv -o -path ./mnt -o -path ./var/backups \) -prune -o -print | sort)
    cat "$1/etc/passwd" "$1/etc/group"
}

# The same package with a higher version.
newer() { # PACKAGE: prints the path of the new one
    local tree=$work/newer
    rm -rf "$tree"
    dpkg-deb -R "$1" "$tree"
    sed -i 's/^Version: .*/&+next/' "$tree/DEBIAN/control"
    dpkg-deb --root-owner-group -Zxz -z1 -b "$tree" "$work/newer.deb" >/dev/null
    echo "$work/newer.deb"
}

# The RPM with a higher release, out of what scripts/package.sh has laid ready.
newer_rpm() {
    local host
    host=$(rustc -vV | sed -n 's/^host: //p')
    PATH=$packages/tools/bin:$PATH cargo generate-rpm -p crates/pagewell --target "$host" \
        --set-metadata 'release = "2"' --payload-compress zstd -o "$work/newer.rpm"
}

# Whether a file has this line.
same() {
    local found
    found=$(cat "$1") && [ "$found" = "$2" ] && return 0
    echo "$1: '$found', not '$2'; then '$(cat "$1")', $(stat -L -c '%s bytes' "$1")" >&2
    return 1
}

# Changes of every kind in the mount, each of which must be done once and well.
load() { # DIRECTORY
    local round=0 place
    while [ ! -e /run/load.stop ]; do
        round=$((round + 1)) place=$1/load-$round
        {
            mkdir "$place" && echo $round >"$place/a" && same "$place/a" $round &&
                mv "$place/a" "$place/b" && ln -s b "$place/c" && same "$place/c" $round &&
                rm "$place/b" "$place/c" && rmdir "$place"
        } 2>>/run/load.errors || echo "round $round failed" >>/run/load.errors
        echo $round >/run/load.rounds
    done
}

start_load() {
    inside rm -f /run/load.stop /run/load.errors /run/load.rounds
    inside bash -c "$(declare -f same load); load /srv/far" &
    loads+=($!)
    until_true 'the load begins' inside test -s /run/load.rounds
}
end_load() { # WHAT HAPPENED
    local before
    before=$(inside cat /run/load.rounds)
    # It goes on after what has happened.
    until_true 'the load goes on' inside sh -c "[ \$(cat /run/load.rounds) -gt $((before + 5)) ]"
    inside touch /run/load.stop
    wait "${loads[-1]}"
    ! inside test -s /run/load.errors || fail "$1: $(inside head -n 5 /run/load.errors)"
}

until_true() { # WHAT COMMAND...
    local what=$1 _
    shift
    for _ in $(seq 600); do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.2
    done
    fail "not within two minutes: $what"
}

configure() { # NAME...: what is served, all of them the same directory
    local name
    {
        for name in "$@"; do
            printf '[[export]]\nname = "/%s"\nsource = "/srv/data"\n' "$name"
        done
    } >"$work/pagewell.toml"
    inside tee /etc/pagewell/pagewell.toml <"$work/pagewell.toml" >/dev/null
}

installed_without_boot() {
    outside dpkg -i /package.deb /bench.deb >"$work/dpkg" 2>&1 || fail "$(cat "$work/dpkg")"
    [ "$(outside pagewell --version)" = "pagewell $version" ] || fail 'another version runs'
    outside pagewell-bench --version >/dev/null || fail 'pagewell-bench does not run'
    local file
    for file in usr/sbin/mount.pagewell usr/sbin/mount.fuse.pagewell usr/share/man/man1/pagewell.1.gz \
        usr/share/man/man7/pagewell-sources.7.gz usr/lib/systemd/system/pagewell.socket \
        usr/share/bash-completion/completions/pagewell usr/share/zsh/vendor-completions/_pagewell \
        usr/share/fish/vendor_completions.d/pagewell.fish usr/share/doc/pagewell/copyright; do
        [ -s "$root/$file" ] || [ -L "$root/$file" ] || fail "$file is missing"
    done
    outside dpkg-query -W -f '${Conffiles}' pagewell | grep -q /etc/pagewell/pagewell.toml ||
        fail 'pagewell.toml is no conffile'
    outside getent passwd pagewell >/dev/null || fail 'no user'
    outside pagewell config check /etc/pagewell/pagewell.toml >/dev/null || fail 'its own file is wrong'
    step 'installed without a running systemd'
}

serves_nothing() {
    inside systemctl enable -q --now pagewell.socket pagewell.service || fail 'it does not start'
    inside systemctl is-active -q pagewell.service || fail 'it does not run with its own file'
    step 'runs with the file it came with, which serves nothing'
}

serves() {
    inside install -d -o pagewell -g pagewell /srv/data
    inside mkdir -p /etc/systemd/system/pagewell.service.d /srv/far
    printf '[Service]\nReadWritePaths=/srv/data\n' |
        inside tee /etc/systemd/system/pagewell.service.d/write.conf >/dev/null
    inside systemctl daemon-reload
    configure data
    inside systemctl restart pagewell.service || fail 'it does not restart'
    local url='nfs://127.0.0.1/data?version=3&nfsport=2049&mountport=2049'
    inside nfs-ls "$url" >/dev/null || fail 'libnfs cannot list'
    local user
    user=$(inside ps -o user= -C pagewell)
    [ "$user" = pagewell ] || fail "it runs as $user"
    grep -q '^CapEff:.*0000000000000000$' "/proc/$(main_process)/status" || fail 'it has capabilities'
    inside journalctl -u pagewell --no-pager >"$work/journal"
    ! grep 'sandbox:' "$work/journal" >"$work/lacks" || fail "its sandbox lacks: $(cat "$work/lacks")"
    inside systemd-analyze security --threshold=20 pagewell.service >"$work/security" ||
        fail "too exposed: $(tail -n 1 "$work/security")"
    inside mount -t pagewell nfs://127.0.0.1:2049/data /srv/far || fail 'mount -t pagewell fails'
    inside sh -c 'echo text >/srv/far/file && grep -q text /srv/data/file' || fail 'writing fails'
    step 'serves at port 2049 as a user without capabilities; mounted by fstab type'
}

# As processes are numbered here.
main_process() {
    local number
    number=$(inside systemctl show -P MainPID pagewell.service)
    grep -l "^NSpid:.*[[:space:]]$number\$" /proc/[0-9]*/status 2>/dev/null | while read -r status; do
        ! grep -q '^Name:[[:space:]]*pagewell$' "$status" || { status=${status#/proc/}; echo "${status%/*}"; }
    done | head -n 1
}

reloads() {
    start_load
    local round
    for ((round = 0; round < RELOADS; round++)); do
        if [ $((round % 2)) = 0 ]; then configure data "more$round"; else configure data; fi
        inside systemctl reload pagewell.service || fail 'reload fails'
    done
    printf '[[export]]\nnaem = "/data"\n' | inside tee /etc/pagewell/pagewell.toml >/dev/null
    ! inside systemctl reload pagewell.service 2>/dev/null || fail 'a wrong file is no error'
    printf '[[export]]\nname = "/data"\nsource = "/srv/data"\n[[export]]\nname = "/boot"\nsource = "/boot"\n' |
        inside tee /etc/pagewell/pagewell.toml >/dev/null
    ! inside systemctl reload pagewell.service 2>/dev/null || fail 'what the sandbox refuses is no error'
    configure data
    end_load "$RELOADS reloads"
    step "reloaded $RELOADS times under load with changing exports, and twice with what is refused"
}

# However often it was started before.
restart() {
    inside systemctl reset-failed pagewell.service
    inside systemctl restart pagewell.service || fail 'it does not restart'
}

restarts() {
    local before after
    start_load
    before=$(inside systemctl show -P MainPID pagewell.service)
    inside dpkg -i /newer.deb >"$work/dpkg" 2>&1 || fail "$(cat "$work/dpkg")"
    after=$(inside systemctl show -P MainPID pagewell.service)
    [ "$before" != "$after" ] || fail 'the upgrade has not restarted the service'
    for _ in 1 2 3 4 5; do restart; done
    end_load 'an upgrade and five restarts'
    step 'upgraded and restarted five times under load: no call failed'
}

watched() {
    printf '[Service]\nWatchdogSec=2\n' |
        inside tee /etc/systemd/system/pagewell.service.d/watchdog.conf >/dev/null
    inside systemctl daemon-reload
    inside systemctl restart pagewell.service
    local before
    before=$(inside systemctl show -P MainPID pagewell.service)
    inside kill -s STOP "$before"
    until_true 'the watchdog restarts it' inside sh -c \
        "n=\$(systemctl show -P MainPID pagewell.service); [ \$n != $before ] && [ \$n != 0 ]"
    until_true 'it serves again' inside grep -q text /srv/far/file
    inside rm /etc/systemd/system/pagewell.service.d/watchdog.conf
    inside systemctl daemon-reload
    step 'a server that stands still is restarted by its watchdog'
}

as_each_caller() {
    inside cp /usr/share/doc/pagewell/examples/as-each-caller.conf /etc/systemd/system/pagewell.service.d/
    inside systemctl daemon-reload
    restart
    inside chmod 1777 /srv/data
    inside rm -f /srv/data/theirs
    # An ordinary user, seen through the protocol.
    local url='nfs://127.0.0.1/data/theirs?version=3&nfsport=2049&mountport=2049&uid=1234&gid=1234'
    inside sh -c "echo text >/tmp/theirs && nfs-cp /tmp/theirs '$url'" >/dev/null || fail 'nfs-cp fails'
    [ "$(inside stat -c %u:%g /srv/data/theirs)" = 1234:1234 ] || fail 'not made as its caller'
    inside rm /etc/systemd/system/pagewell.service.d/as-each-caller.conf
    inside systemctl daemon-reload
    restart
    inside grep -q text /srv/far/file || fail 'the handles have changed'
    step 'calls are made as their callers with the example for it'
}

guest() {
    command -v qemu-system-x86_64 >/dev/null || fail 'GUEST=1 needs qemu-system-x86'
    # Fetched now: the system's network is its own.
    tests/guest/kernel.sh >/dev/null && tests/guest/tools.sh >/dev/null || fail 'no guest'
    nsenter -n -t "$process" tests/guest/boot.sh -t 600 "$here/guest.sh" >"$work/guest" 2>&1 &
    loads+=($!)
    local round
    until_true 'the guest works' inside test -e /srv/data/guest-works
    for round in 1 2 3 4 5 6; do
        restart
        sleep 1
    done
    inside touch /srv/data/guest-stop
    wait "${loads[-1]}" || fail "the guest: $(tail -n 5 "$work/guest")"
    step "a Linux kernel's client worked through $round restarts: $(grep rounds "$work/guest")"
}

# What systemd and mount(8) know of mounts: units, lines of fstab, and when they are looked at.
mounts() {
    local examples=/usr/share/doc/pagewell/examples units=/etc/systemd/system
    mkdir -p "$work/iso"
    echo 'of the image' >"$work/iso/text"
    genisoimage -quiet -R -o "$root/srv/debian.iso" "$work/iso"
    inside umount /srv/far
    # The examples, with this machine as the server.
    inside sed -i 's|^What=.*|What=nfs://127.0.0.1:2049/data|' "$examples/srv-far.mount"
    inside sed -i 's|^TimeoutIdleSec=.*|TimeoutIdleSec=1|' "$examples/srv-far.automount"
    inside cp "$examples"/srv-far.mount "$examples"/srv-far.automount "$examples"/media-debian.mount $units
    inside systemctl daemon-reload
    inside systemctl start srv-far.mount media-debian.mount || fail 'the mount units do not start'
    inside grep -q text /srv/far/file || fail 'srv-far.mount shows nothing'
    inside grep -q 'of the image' /media/debian/text || fail 'media-debian.mount shows nothing'
    inside sh -c 'echo unit >/srv/far/of-unit'
    inside systemctl stop srv-far.mount media-debian.mount || fail 'the mount units do not stop'
    ! inside grep -E "(debian|far) fuse" /proc/mounts >"$work/left" || fail "left of the units: $(cat "$work/left")"
    inside grep -q unit /srv/data/of-unit || fail 'what was written is lost'
    step 'mounts by units of systemd'
    inside systemctl start srv-far.automount || fail 'the automount unit does not start'
    ! inside systemctl is-active -q srv-far.mount || fail 'mounted before anything looks'
    local entered
    entered=$(inside systemctl show -P ActiveEnterTimestampMonotonic srv-far.mount)
    inside grep -q text /srv/far/file || fail 'the automount shows nothing'
    # It may be gone again already.
    [ "$entered" != "$(inside systemctl show -P ActiveEnterTimestampMonotonic srv-far.mount)" ] ||
        fail 'the automount has not started the mount'
    until_true 'the idle mount goes' inside sh -c '! systemctl is-active -q srv-far.mount'
    inside grep -q text /srv/far/file || fail 'the automount shows nothing a second time'
    inside systemctl stop srv-far.automount srv-far.mount
    step 'mounts when they are looked at, and goes when they are not'
    inside rm $units/srv-far.mount $units/srv-far.automount $units/media-debian.mount
    inside mkdir -p /media/far
    inside tee -a /etc/fstab >/dev/null <<'END'
/srv/debian.iso             /media/debian  pagewell  ro,nofail,x-systemd.automount,user,nosuid  0 0
nfs://127.0.0.1:2049/data   /media/far     pagewell  _netdev,nofail,noauto,cache=64m,threads=8  0 0
END
    inside systemctl daemon-reload
    inside systemctl start media-debian.automount || fail 'the automount of fstab does not start'
    inside grep -q 'of the image' /media/debian/text || fail 'the line of fstab shows nothing'
    ! inside sh -c 'echo >/media/debian/new' 2>/dev/null || fail 'an image takes files'
    inside mount /media/far || fail 'mount by its place fails'
    inside grep -q text /media/far/file || fail 'the mount by its place shows nothing'
    inside findmnt -n -o SOURCE,OPTIONS /media/far | grep -q nodev || fail 'devices are not kept away'
    inside umount /media/far || fail 'umount by its place fails'
    inside systemctl stop media-debian.automount media-debian.mount
    inside mount -t fuse.pagewell /srv/debian.iso /media/far -o ro || fail 'fuse.pagewell is no type'
    inside umount /media/far
    ! inside mount -t pagewell /srv/none.iso /media/far 2>"$work/none" || fail 'what is not there is mounted'
    grep -q /srv/none.iso "$work/none" || fail "the message names nothing: $(cat "$work/none")"
    inside sh -c ': >/etc/fstab' && inside systemctl daemon-reload
    inside rm -r /media/far /media/debian
    step 'mounts by lines of fstab: at once, when looked at, by its place'
}

removed() {
    inside dpkg -P pagewell-bench pagewell >"$work/dpkg" 2>&1 || fail "$(cat "$work/dpkg")"
    ! inside pgrep -x pagewell >/dev/null || fail 'it still runs'
    inside systemctl daemon-reload
    ! inside systemctl list-unit-files --no-legend 'pagewell*' | grep . || fail 'units are left'
    files "$root" >"$work/after"
    rm -f "$root/package.deb" "$root/bench.deb" "$root/newer.deb"
    files "$root" >"$work/after"
    diff "$work/before" "$work/after" >"$work/left" || fail "left behind: $(head "$work/left")"
    step 'removed: nothing is left behind'
}

# The same with the RPM, in this system, which has rpm and no other packages of its kind: so what it
# needs is compared with what is there.
by_rpm() {
    local need force=
    # Debian 12 has this rpm refuse to install.
    ! inside rpm --force-debian --version >/dev/null 2>&1 || force=--force-debian
    cp "$rpm" "$root/package.rpm"
    cp "$work/newer.rpm" "$root/newer.rpm"
    inside rpm -K --nosignature /package.rpm >"$work/rpm" || fail "damaged: $(cat "$work/rpm")"
    inside rpm -qpR /package.rpm 2>/dev/null >"$work/needs"
    grep -q '^libc.so.6' "$work/needs" || fail 'the RPM does not say which C library it needs'
    while read -r need _; do
        case $need in
            rpmlib* | config\(*) ;;
            /*) [ -e "$root$need" ] || fail "it needs $need" ;;
            rtld*) ;;
            *.so*) [ -n "$(find "$root/usr/lib" "$root/lib64/" -name "${need%%(*}")" ] || fail "it needs $need" ;;
            *) fail "it needs $need" ;;
        esac
    done <"$work/needs"
    inside rpm -i $force --nodeps /package.rpm 2>"$work/rpm" || fail "rpm: $(cat "$work/rpm")"
    [ ! -s "$work/rpm" ] || fail "rpm says: $(cat "$work/rpm")"
    inside rpm -V --nodeps pagewell >"$work/rpm" || fail "not as installed: $(cat "$work/rpm")"
    inside systemctl enable -q --now pagewell.socket pagewell.service || fail 'it does not start by RPM'
    [ "$(inside ps -o user= -C pagewell)" = pagewell ] || fail 'it runs as another user by RPM'
    configure data
    inside install -d -o pagewell -g pagewell /srv/data
    # Its sandbox was made without this directory.
    inside systemctl restart pagewell.service || fail 'it does not restart by RPM'
    inside mount -t pagewell nfs://127.0.0.1:2049/data /srv/far || fail 'mount -t pagewell fails by RPM'
    local before
    before=$(inside systemctl show -P MainPID pagewell.service)
    inside rpm -U $force --nodeps /newer.rpm 2>"$work/rpm" || fail "rpm -U: $(cat "$work/rpm")"
    inside grep -q /srv/data /etc/pagewell/pagewell.toml || fail 'the upgrade took the configuration away'
    [ "$before" != "$(inside systemctl show -P MainPID pagewell.service)" ] || fail 'the RPM has not restarted it'
    inside ls /srv/far >/dev/null || fail 'the handles have changed by RPM'
    inside umount /srv/far
    step 'an RPM: installed, served and mounted, upgraded with its configuration kept'
    inside rpm -e pagewell 2>"$work/rpm" || fail "rpm -e: $(cat "$work/rpm")"
    ! inside pgrep -x pagewell >/dev/null || fail 'it still runs after rpm -e'
    # What was changed is kept by RPM, by its rule.
    inside rm -r /etc/pagewell
    inside systemctl daemon-reload
    rm -f "$root/package.rpm" "$root/newer.rpm"
    files "$root" | grep -v '^\./usr/lib/sysimage\|^\./var/lib/rpm' >"$work/after"
    grep -v '^\./usr/lib/sysimage\|^\./var/lib/rpm' "$work/before" | diff - "$work/after" >"$work/left" ||
        fail "left behind by rpm: $(head "$work/left")"
    step 'an RPM: removed, nothing is left behind but what was changed in its configuration'
}

try() {
    root=$work/$suite
    booted "$root" || return 0
    shut_down
    files "$root" >"$work/before"
    cp "$packages"/pagewell_*.deb "$root/package.deb"
    cp "$packages"/pagewell-bench_*.deb "$root/bench.deb"
    cp "$(newer "$root/package.deb")" "$root/newer.deb"
    installed_without_boot
    process=$("$here/boot.sh" "$root")
    serves_nothing
    serves
    reloads
    restarts
    watched
    as_each_caller
    mounts
    [ -z "${GUEST:-}" ] || guest
    removed
    [ -z "$rpm" ] || by_rpm
    shut_down
    rm -rf "$root"
}

shut_down() {
    kill -s RTMIN+4 "$process"
    local _
    for _ in $(seq 300); do
        kill -0 "$process" 2>/dev/null || { process=; return; }
        sleep 0.2
    done
    fail 'the system does not end'
}

suite=all
[ "$(id -u)" = 0 ] || fail 'must be root'
ls "$packages"/pagewell_*.deb >/dev/null 2>&1 || scripts/package.sh
version=$(dpkg-deb -f "$packages"/pagewell_*.deb Version)
version=${version%-*}
mkdir -p "$packages/test"
work=$(mktemp -d "$packages/test/XXXXXX")
trap 'cleanup; rm -rf "$work"' EXIT
# None where packages of other kinds alone were made.
rpm=$(find "$packages" -maxdepth 1 -name 'pagewell-[0-9]*.rpm' -print -quit)
[ -z "$rpm" ] || newer_rpm
for suite in "$@"; do
    begin=$SECONDS
    try
done
echo "package scenarios: $passed passed, 0 failed, $not_here systems not here"
