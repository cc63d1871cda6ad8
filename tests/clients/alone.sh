#!/usr/bin/env bash
# In a mount namespace of its own: lets go of the mounts of other scenarios, which would go on there
# when they are unmounted, and umount would say that they are used elsewhere.
#
# usage: alone.sh [MOUNT]     MOUNT is kept
set -euo pipefail
while read -r _ place _; do
    [ "$place" = "${1-}" ] || umount --lazy "$place"
done < <(grep ' fuse.pagewell ' /proc/mounts)
