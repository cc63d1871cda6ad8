# Part of guest-sqlite.
. /job/lib.sh

# transactions JOURNAL: 16 of 50 rows each, of which the even ones are rolled back; then some that
# change and remove rows.
transactions() {
    local number row
    printf '.bail on\nPRAGMA journal_mode=%s;\nPRAGMA synchronous=full;\n' "$1"
    echo 'CREATE TABLE rows(number INTEGER PRIMARY KEY, bytes BLOB);'
    echo 'CREATE INDEX lengths ON rows(length(bytes), number);'
    for number in {0..15}; do
        echo 'BEGIN;'
        for row in {1..50}; do
            row=$((number / 2 * 50 + row))
            echo "INSERT INTO rows VALUES ($row, randomblob($((row * 7 % 3000))));"
        done
        if [ $((number % 2)) = 0 ]; then echo 'ROLLBACK;'; else echo 'COMMIT;'; fi
    done
    echo 'UPDATE rows SET bytes = randomblob(2000) WHERE number % 10 = 3;'
    echo 'INSERT INTO rows SELECT number + 5000, bytes FROM rows;'
    echo 'DELETE FROM rows WHERE number > 5000;'
}

whole() { # DATABASE
    # The last client of a test program may still be on its way out.
    equal ok "$(sqlite3 -cmd '.timeout 60000' "$1" 'PRAGMA integrity_check')" "$1"
}

shell() { # JOURNAL
    transactions "$1" | sqlite3 "shell-$1" >/dev/null
    forget
    whole "shell-$1"
    equal '400|80200' "$(sqlite3 "shell-$1" 'SELECT count(*), sum(number) FROM rows')" 'rows'
}

# crash JOURNAL COUNT: clients of one database side by side, of which one ends so often in the
# middle of a transaction. The script of SQLite has nine such ends. To the kernel's client every
# lock is a point of coherence: it sends what it has, and forgets it. On the export itself that is
# 28,600 calls with nine ends, 40 s on a machine that does nothing else and minutes on others.
crash() {
    local number script=/job/sqlite/crash.test
    sed '/^--source/d' /job/sqlite/crash01.test >"$script"
    for ((number = 0; number < $2; number++)); do echo '--source crash02.subtest'; done >>"$script"
    equal "$2" "$(grep -c '^--source' "$script")" 'ends in the script'
    /job/sqlite/mptest "processes-$1" --journalmode "$1" "$script" \
        >/tmp/mptest.log 2>&1 || { tail -n 20 /tmp/mptest.log; fail "mptest $1"; }
    grep '^Summary: 0 errors' /tmp/mptest.log || { tail -n 20 /tmp/mptest.log; fail "mptest $1"; }
    whole "processes-$1"
}

# What it computes is the same on every file system; the number is printed as a hash.
speed() { # JOURNAL
    local place
    for place in "$PWD" /tmp; do
        /job/sqlite/speedtest1 --size 1 --verify --journal "$1" "$place/speed-$1" \
            >"/tmp/speed.log" || { tail -n 20 /tmp/speed.log; fail "speedtest1 $1"; }
        grep '^Verification Hash' /tmp/speed.log >>/tmp/speed.hash
    done
    equal 1 "$(sort -u /tmp/speed.hash | wc -l)" "results of speedtest1 $1"
    whole "speed-$1"
    rm /tmp/speed.hash "/tmp/speed-$1"
}

mount_export /image /mnt/image
mount_export /ram /mnt/ram
mkdir /mnt/disk
mkfs.ext4 -q /mnt/image/disk.img
mount -o loop /mnt/image/disk.img /mnt/disk
step 'ext4 on an image is mounted'

for place in disk ram; do
    cd "/mnt/$place"
    for journal in delete wal; do
        shell "$journal"
        step "$place, $journal: transactions"
    done
done
if [ -e /job/sqlite ]; then
    cd /mnt/disk
    speed delete
    step 'disk, delete: speedtest1'
    crash delete 9
    step 'disk, delete: crashes'
    cd /mnt/ram
    speed wal
    step 'ram, wal: speedtest1'
    crash wal 3
    step 'ram, wal: crashes'
fi
cd /
umount /mnt/disk
forget
e2fsck -fn /mnt/image/disk.img
umount /mnt/image /mnt/ram
step 'unmounted'
