# Part of real-images.
. /job/lib.sh

for list in /job/kernel-sums*; do
    number=${list#/job/kernel-sums}
    mount_export "/image$number" "/mnt/$number"
    sums "/mnt/$number" | diff "$list" - || fail "image $number"
    # The time of every file and directory is one that can be.
    [ -z "$(find "/mnt/$number" -newermt 2100-01-01)" ] || fail 'a time in the far future'
    umount "/mnt/$number"
done
