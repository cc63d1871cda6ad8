#!/usr/bin/env bash
# Sees to it that the programs a group of make targets needs are installed.
#
# usage: scripts/packages.sh GROUP...      GROUP is demo, test, images, page, bench, package or unfs3
#
# On Debian and Ubuntu missing packages are installed when that is possible without asking
# (as root, or with a sudo that wants no password). Otherwise they are named together with the
# command that installs them, and the exit status is 1. With everything there it takes a moment.
set -euo pipefail

# group, Debian package, what proves that it is there (a command or the path of a file)
TABLE='
build make                make
build gcc                 cc
build libc6-dev           /usr/include/stdio.h
demo  xorriso             xorriso
demo  libnfs-utils        nfs-cp
test  qemu-system-x86     qemu-system-x86_64
test  busybox-static      busybox
test  cpio                cpio
test  zstd                zstd
test  kmod                depmod
test  fio                 fio
test  nfs-common          mount.nfs
test  genisoimage         genisoimage
test  libarchive-tools    bsdtar
test  strace              strace
test  fuse3               fusermount3
test  python3             python3
test  sqlite3             sqlite3
test  git                 git
test  rsync               rsync
test  nfs-ganesha         ganesha.nfsd
test  nfs-ganesha-vfs     ganesha.nfsd
test  rpcbind             rpcbind
test  iproute2            ip
test  libsqlite3-dev      /usr/include/sqlite3.h
test  xz-utils            xz
test  e2fsprogs           mkfs.ext4
test  grub-rescue-pc      /usr/lib/grub-rescue/grub-rescue-cdrom.iso
test  ipxe                /usr/lib/ipxe/ipxe.iso
test  klibc-utils         /usr/lib/klibc/bin/nfsmount
test  memtest86+          /usr/lib/memtest86+/memtest86+x64.iso
test  udftools            mkudffs
test  mame-tools          chdman
test  fdisk               sfdisk
test  bchunk              bchunk
test  ccd2iso             ccd2iso
test  cuetools            cueconvert
test  iat                 iat
test  mdf2iso             mdf2iso
images xorriso            xorriso
images genisoimage        genisoimage
images libarchive-tools   bsdtar
images p7zip-full         7z
images udftools           mkudffs
images fuse3              fusermount3
images python3-venv       python3
images qemu-system-x86    qemu-system-x86_64
images busybox-static     busybox
images cpio               cpio
images kmod               depmod
images nfs-common         mount.nfs
images zstd               zstd
images xz-utils           xz
package debootstrap       debootstrap
package iproute2          ip
package util-linux        nsenter
package procps            pgrep
package genisoimage       genisoimage
package podman            podman
package crun              crun
page  chromium            /usr/bin/chromium
page  fonts-dejavu-core   /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
page  prometheus          promtool
page  nodejs              node
page  curl                curl
page  fuse3               fusermount3
bench fio                 fio
bench xorriso             xorriso
bench libarchive-tools    bsdtar
bench p7zip-full          7z
bench fuseiso             fuseiso
bench curl                curl
unfs3 flex                flex
unfs3 bison               bison
unfs3 pkg-config          pkg-config
unfs3 libtirpc-dev        /usr/include/tirpc/rpc/rpc.h
'

say() { printf 'packages: %s\n' "$*" >&2; }

check_rust() {
    command -v cargo >/dev/null && return
    say 'cargo (Rust 1.95 or newer) is missing; https://rustup.rs tells how to get it:'
    say "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
    exit 1
}

installed() { # PACKAGE PROOF
    if command -v dpkg-query >/dev/null; then
        dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
    elif [ "${2#/}" != "$2" ]; then
        [ -e "$2" ]
    else
        command -v "$2" >/dev/null
    fi
}

missing() { # GROUP...
    local group package proof
    while read -r group package proof; do
        case " $* " in *" $group "*) installed "$package" "$proof" || echo "$package" ;; esac
    done <<<"$(sed '/^$/d' <<<"$TABLE")"
}

wanted_groups() { # GROUP...: each with the groups it builds on
    local group
    for group in "$@"; do
        case $group in
            demo) echo build demo ;;
            test) echo build demo test ;;
            bench) echo build demo test bench ;;
            *)
                if ! grep -q "^$group " <<<"$TABLE"; then
                    say "unknown group '$group' (demo, test, images, page, bench, package or unfs3)"
                    exit 2
                fi
                echo "build $group"
                ;;
        esac
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_be_root() { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }

install() { # PACKAGE...
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
    say "installing $*"
    # The index may be missing or old: try with it as it is, then with a fresh one.
    if ! as_root "${apt[@]}" install -y --no-install-recommends "$@" >/dev/null 2>&1; then
        as_root "${apt[@]}" update >/dev/null
        as_root "${apt[@]}" install -y --no-install-recommends "$@" >/dev/null
    fi
}

main() {
    [ $# -gt 0 ] || { say 'which group? (demo, test, page, bench, package or unfs3)'; exit 2; }
    local groups packages
    groups=$(wanted_groups "$@")
    # /usr/sbin holds some of the programs and is not on every user's path.
    PATH=$PATH:/usr/sbin:/sbin
    check_rust
    mapfile -t packages < <(missing $groups)
    [ ${#packages[@]} -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null; then
        say 'this is not Debian or Ubuntu, so nothing is installed for you. Needed are the'
        say "programs that Debian has in: ${packages[*]}"
        exit 1
    fi
    if ! can_be_root; then
        say "missing: ${packages[*]}"
        say "  sudo apt-get install --no-install-recommends ${packages[*]}"
        exit 1
    fi
    install "${packages[@]}"
    mapfile -t packages < <(missing $groups)
    [ ${#packages[@]} -eq 0 ] || { say "still missing: ${packages[*]}"; exit 1; }
}

main "$@"
