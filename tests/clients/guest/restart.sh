# Part of guest-restart. The host restarts the server after 'writing' and 'progress'.
. /job/lib.sh

mount_export /dir /mnt/dir
mount_export /iso /mnt/iso
cd /mnt/dir
echo kept >kept
exec 3<>kept
cat >/tmp/job <<'END'
[global]
directory=/mnt/dir
rw=randwrite
size=18m
rate=400k
verify=crc32c
verify_fatal=1
group_reporting

[buffered]
bs=8k
fsync=64

[direct]
bs=16k
direct=1

[synchronous]
bs=4k
size=4m
rate=100k
sync=1
END
fio --eta=never --output=/tmp/fio.log /tmp/job &
fio=$!
echo 'writing'

# Meanwhile many small calls, each of which must succeed whatever the server does.
number=0
while kill -0 "$fio" 2>/dev/null; do
    number=$((number + 1))
    mkdir "d$number"
    echo "$number" >"d$number/file"
    mv "d$number/file" "d$number/name"
    ln "d$number/name" "d$number/link"
    equal "$number" "$(cat "d$number/link")" 'file'
    rm "d$number/name" "d$number/link"
    rmdir "d$number"
    echo 3 >/proc/sys/vm/drop_caches
    cmp /job/odd-size /mnt/iso/sub/odd-size
    [ $((number % 4)) != 0 ] || echo "progress $((number / 4))"
done
wait "$fio" || { cat /tmp/fio.log; fail 'fio'; }
! grep -Eq 'err= *[1-9]|verify:' /tmp/fio.log || { cat /tmp/fio.log; fail 'fio'; }
step "fio verified; $number rounds of small calls"

equal kept "$(cat <&3)" 'a file opened before'
echo more >&3
exec 3>&-
equal $'kept\nmore' "$(cat kept)" 'a file written through a descriptor opened before'
sha256sum -- * >/tmp/sums
cp /tmp/sums sums
cd /
umount /mnt/dir /mnt/iso
dmesg | grep -c 'not responding' || true
