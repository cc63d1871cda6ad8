#!/usr/bin/env bash
# Makes target/guest/tools.iso, the root file system of the guest, and prints its path.
#
# It holds the files of a list of packages installed here and of all they depend on, so the
# guest runs the very programs of this machine (shell, C compiler, git, fio, mount.nfs) without
# a second installation. It is made anew when the installed packages have changed.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Scenarios run side by side; the second finds what the first has made.
mkdir -p target/guest
exec 9>"target/guest/tools.lock"
flock 9
image=$PWD/target/guest/tools.iso

packages='bash coreutils findutils grep sed tar diffutils util-linux mount perl-base procps
    gcc libc6-dev make git fio nfs-common strace sqlite3 e2fsprogs'

closure() {
    apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts \
        --no-breaks --no-replaces --no-enhances $packages 2>/dev/null |
        grep '^[a-z0-9]' | sort -u
}

# All files below /usr, /bin, /sbin and /lib, under the names they have when /bin, /sbin and
# /lib are links into /usr. Documentation and translations stay out.
files() {
    grep -E '^/(usr|bin|sbin|lib|lib32|lib64)/' |
        grep -Evx '/bin/sh|/usr/bin/sh' |
        grep -Ev '^/usr/share/(doc|man|info|locale|lintian|bug|icons)/' |
        sed -E 's,^/(bin|sbin|lib|lib32|lib64)/,/usr/\1/,' | sort -u |
        while IFS= read -r file; do
            if [ -L "$file" ] || [ -f "$file" ]; then printf '%s=%s\n' "$file" "$file"; fi
        done
}

skeleton() { # DIRECTORY: what is not in any package
    local name
    mkdir -p "$1"/{dev,etc,job,mnt,proc,root,run,sys,tmp,var/lib/nfs,usr/{bin,sbin,lib,lib64}}
    for name in bin sbin lib lib64; do ln -s "usr/$name" "$1/$name"; done
    ln -s bash "$1/usr/bin/sh"
    ln -s /proc/self/mounts "$1/etc/mtab"
    cp -L /etc/netconfig /etc/protocols /etc/services "$1/etc/" 2>/dev/null || true
    [ ! -e /etc/ld.so.cache ] || cp /etc/ld.so.cache "$1/etc/"
    echo '127.0.0.1 localhost' >"$1/etc/hosts"
    printf '%s\n' root:x:0:0::/root:/bin/sh nobody:x:65534:65534::/:/bin/sh \
        _rpc:x:101:65534::/run/rpcbind:/bin/sh statd:x:102:65534::/var/lib/nfs:/bin/sh \
        anna:x:1001:1001::/:/bin/sh bert:x:1002:1002::/:/bin/sh >"$1/etc/passwd"
    printf '%s\n' root:x:0: nogroup:x:65534: anna:x:1001: bert:x:1002: team:x:1100: \
        >"$1/etc/group"
}

if [ "$image" -nt /var/lib/dpkg/status ] && [ "$image" -nt "$0" ]; then
    echo "$image"
    exit 0
fi

mkdir -p "${image%/*}"
work=$(mktemp -d "${image%/*}/tools.XXXXXX")
trap 'rm -rf "$work"' EXIT
# The closure names virtual packages too; only what is installed has files.
closure | xargs dpkg-query -W -f '${db:Status-Status} ${binary:Package}\n' 2>/dev/null |
    sed -n 's/^installed //p' >"$work/packages" || true
skeleton "$work/root"
xargs dpkg-query -L <"$work/packages" | files >"$work/list"
xorriso -as mkisofs -quiet -R -iso-level 3 -graft-points -path-list "$work/list" \
    -o "$image.new" "$work/root" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
mv "$image.new" "$image"
echo "$image"
