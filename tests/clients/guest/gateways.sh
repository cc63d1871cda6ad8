# Part of tests/objects/gateways.sh: works on a bucket whose gateways are killed, until the host has
# put `stop` into it. Prints the checksums of what was acknowledged, as this machine knows them
# without reading it back.
. /job/lib.sh

mount_export /data /mnt/data
cd /mnt/data
cat >/tmp/job <<'END'
[global]
directory=/mnt/data/fio
verify=crc32c
verify_fatal=1
do_verify=1
randrepeat=0
group_reporting

[buffered]
rw=randwrite
bs=8k
size=2m
fsync=32
rate=300k

[direct]
rw=randwrite
bs=16k
direct=1
size=512k
rate=100k

[large]
rw=write
bs=64k
size=12m
fsync=64
rate=1m
END

verify() {
    local passes=0
    until [ -e /tmp/stop ]; do
        fio --eta=never --output=/tmp/fio.log /tmp/job || { cat /tmp/fio.log; return 1; }
        ! grep -Eq 'err= *[1-9]|verify:' /tmp/fio.log || { cat /tmp/fio.log; return 1; }
        passes=$((passes + 1))
    done
    echo "$passes" >/tmp/passes
}

# change DONE COMMAND...: a change of names that must have been made. Where a kill falls between it
# and its answer, the client asks the next gateway, which refuses the second call
# (docs/GATEWAYS.md): the program sees a failure, DONE holds all the same.
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

mkdir fio records copies
verify &
fio=$!
pass=0
: >/tmp/expected
: >/tmp/log
echo 'working'
until [ -e stop ]; do
    kill -0 "$fio" 2>/dev/null || { wait "$fio" || true; fail 'fio'; }
    pass=$((pass + 1))
    copy=copies/$pass
    change '[ -d "$copy" ]' mkdir "$copy"
    tar -x -C "$copy" -f /job/tree.tar || fail 'tar'
    forget
    sums "$copy" | diff /job/sums - || fail "copy $pass differs"
    head -c $((pass * 7919 % 300000)) /dev/urandom >/tmp/record
    dd if=/tmp/record of="records/$pass" bs=64k conv=fsync status=none || fail 'dd'
    change '[ ! -e "records/$pass" ] && [ -f "records/$pass.moved" ]' \
        mv "records/$pass" "records/$pass.moved"
    printf '%s  %s\n' "$(sha256sum </tmp/record | cut -d ' ' -f 1)" "records/$pass.moved" \
        >>/tmp/expected
    echo "pass $pass $RANDOM" >/tmp/line
    cat /tmp/line >>log && sync log || fail 'log'
    cat /tmp/line >>/tmp/log
    forget
    cmp log /tmp/log || fail "the log after pass $pass"
    cmp /tmp/record "records/$pass.moved" || fail "record $pass"
    # Some copies stay.
    if [ $((pass % 8)) != 1 ]; then
        rm -rf "$copy" || fail 'rm -rf'
        [ ! -e "$copy" ] || fail "copy $pass is there after it was removed"
    else
        sed "s,  \\./,  $copy/," /job/sums >>/tmp/expected
    fi
    echo "progress $pass"
done
touch /tmp/stop
wait "$fio" || fail 'fio'
printf '%s  log\n' "$(sha256sum </tmp/log | cut -d ' ' -f 1)" >>/tmp/expected
# What fio wrote it has verified; this is how it read.
for file in fio/*; do sha256sum "$file" >>/tmp/expected; done
cd /
umount /mnt/data
sed 's/^/expected /' /tmp/expected
step "$pass passes, $(cat /tmp/passes) of fio, $refusals changes refused after they were made"
