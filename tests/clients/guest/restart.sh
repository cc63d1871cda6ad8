# Part of guest-restart. The host kills the server twice and stops it once, after 'writing' and 'progress'.
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

# change DONE COMMAND...: a change that must have been made, whatever the server does. Where a kill
# falls between a change and its answer, the client asks again, and the server that has forgotten
# the first call refuses the second (docs/SEMANTICS.md): the program is told of a failure, DONE
# holds all the same. That may happen once for each kill.
refusals=0
change() {
    local done=$1
    shift
    if ! "$@" 2>/tmp/refusal; then
        grep -Eq 'File exists|No such file' /tmp/refusal || fail "$* is refused: $(cat /tmp/refusal)"
        eval "$done" || fail "$* is refused and not done: $(cat /tmp/refusal)"
        refusals=$((refusals + 1))
    fi
}

# Meanwhile many small calls.
number=0
while kill -0 "$fio" 2>/dev/null; do
    number=$((number + 1))
    there=d$number
    change '[ -d "$there" ]' mkdir "$there"
    echo "$number" >"$there/file"
    change '[ ! -e "$there/file" ] && [ -f "$there/name" ]' mv "$there/file" "$there/name"
    change '[ "$there/name" -ef "$there/link" ]' ln "$there/name" "$there/link"
    equal "$number" "$(cat "$there/link")" 'file'
    change '[ ! -e "$there/name" ]' rm "$there/name"
    change '[ ! -e "$there/link" ]' rm "$there/link"
    change '[ ! -e "$there" ]' rmdir "$there"
    echo 3 >/proc/sys/vm/drop_caches
    cmp /job/odd-size /mnt/iso/sub/odd-size
    [ $((number % 4)) != 0 ] || echo "progress $((number / 4))"
done
wait "$fio" || { cat /tmp/fio.log; fail 'fio'; }
! grep -Eq 'err= *[1-9]|verify:' /tmp/fio.log || { cat /tmp/fio.log; fail 'fio'; }
[ "$refusals" -le 2 ] || fail "$refusals changes were refused after they were made, with two kills"
step "fio verified; $number rounds of small calls, $refusals refused after they were made"

equal kept "$(cat <&3)" 'a file opened before'
echo more >&3
exec 3>&-
equal $'kept\nmore' "$(cat kept)" 'a file written through a descriptor opened before'
sha256sum -- * >/tmp/sums
cp /tmp/sums sums
cd /
umount /mnt/dir /mnt/iso
dmesg | grep -c 'not responding' || true
