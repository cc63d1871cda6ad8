# Part of guest-fio: every block carries a checksum and is read back after all were written.
. /job/lib.sh

cat >/tmp/job <<'END'
[global]
directory=${TARGET}
size=2m
verify=crc32c
verify_fatal=1
do_verify=1
randrepeat=0
group_reporting

[buffered]
rw=randwrite
bs=4k
numjobs=2

[buffered-unaligned]
rw=randrw
bsrange=1k-40k
bs_unaligned

[direct]
rw=randwrite
bs=16k
direct=1
ioengine=libaio
iodepth=16
numjobs=2

[direct-large]
size=16m
rw=write
bs=1m
direct=1
ioengine=libaio
iodepth=4

[synchronous]
rw=randwrite
bs=8k
size=512k
sync=1

[fsync-often]
rw=randwrite
bs=4k
size=1m
fsync=16
END

for export in dir ram; do
    for options in '' rsize=4096,wsize=4096 nconnect=4; do
        mount_export "/$export" "/mnt/$export" "$options"
        TARGET=/mnt/$export fio --eta=never --output=/tmp/fio.log /tmp/job || { cat /tmp/fio.log; fail "fio on $export"; }
        ! grep -Eq 'err= *[1-9]|verify:' /tmp/fio.log || { cat /tmp/fio.log; fail "fio on $export"; }
        step "$export ${options:-with default options}: verified"
        rm /mnt/"$export"/*
        umount "/mnt/$export"
        # The other options once are enough.
        [ "$export" = dir ] || break
    done
done
