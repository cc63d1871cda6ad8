#!/usr/bin/env bash
# Fetches the distribution's kernel for virtual machines, unpacks it under target/guest/kernel
# and prints that directory. Nothing is installed; a second run finds it there.
#
# Layout: boot/vmlinuz-VERSION and lib/modules/VERSION, as in the packages.
set -euo pipefail
cd "$(dirname "$0")/../.."
# Scenarios run side by side; the second finds what the first has made.
mkdir -p target/guest
exec 9>"target/guest/kernel.lock"
flock 9
store=$PWD/target/guest/kernel

if [ -e "$store/complete" ]; then
    echo "$store"
    exit 0
fi

# Debian's small kernel, or Ubuntu's. Both are empty packages that depend on the newest one.
newest() {
    local name
    for name in linux-image-cloud-amd64 linux-image-virtual; do
        apt-cache depends "$name" 2>/dev/null |
            sed -n 's/^ *Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1 | grep . && return
    done
    echo 'guest: no linux-image-cloud-amd64 or linux-image-virtual in the package index' >&2
    return 1
}

image=$(newest)
# Ubuntu keeps the modules in a package of their own.
modules=$(apt-cache depends "$image" | sed -n 's/^ *Depends: \(linux-modules-[0-9][^ ]*\)$/\1/p')
rm -rf "$store"
mkdir -p "$store/packages"
cd "$store/packages"
apt-get download -q "$image" $modules >download.log 2>&1 || { cat download.log >&2; exit 1; }
for package in *.deb; do
    dpkg -x "$package" "$store"
    rm "$package"
done
touch "$store/complete"
echo "$store"
