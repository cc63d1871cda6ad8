# Part of guest-locks: the first of two kernels, and two clients by itself. Calls from the server
# cannot reach it, so what it waits for it gets when its kernel asks again, after half a minute.
. /job/lib.sh
. /job/lock-client.sh

become anna
mount_with_locks /mnt/one
mount_with_locks /mnt/two
cd /mnt

# Two mounts share nothing in this kernel: only the server knows of both.
exec 8<>one/file
flock -n -x 8 || fail 'a free file cannot be locked'
refused flock -n two/file true
flock -u 8
flock -n -s 8 || fail 'a free file cannot be locked to be read'
flock -n -s two/file true || fail 'readers do not share'
refused flock -n -x two/file true
exec 8>&-
flock -n two/file true || fail 'the end of a program leaves its lock'
step 'flock'

# Ranges, with fcntl: what one has another has not, and the rest is free.
exec 8<>one/file
range 8 w 10 10 || fail 'a range cannot be locked'
refused range_of two/file w 19 1
range_of two/file w 20 5 || fail 'the end of a range is locked, too'
range 8 u 12 4
range_of two/file w 12 4 || fail 'the middle of a range stays locked'
refused range_of two/file r 16 4
range 8 r 16 4
range_of two/file r 16 4 || fail 'a downgrade lets no reader in'
exec 8>&-
step 'fcntl'

# A database used from both sides loses no row.
sqlite3 one/base 'CREATE TABLE rows(side TEXT, number INTEGER)'
fill() { # SIDE
    local number
    for number in {1..8}; do
        sqlite3 -cmd '.timeout 100000' "$1/base" "INSERT INTO rows VALUES ('$1', $number)" ||
            return 1
    done
}
fill one & first=$!
fill two || fail 'a row was not written'
wait $first || fail 'a row was not written'
equal 'ok 16' "$(sqlite3 -separator ' ' two/base \
    'SELECT (SELECT * FROM pragma_integrity_check), count(*) FROM rows')" 'the database'
step 'sqlite'

# The other kernel.
exec 8<>one/shared
flock -x 8
touch one/held
until [ -e two/tried ]; do sleep 1; done
# By now it waits.
sleep 5
flock -u 8
until [ -e two/done ]; do sleep 1; done
step 'the other kernel had the lock'
exec 8>&-
cd /
umount /mnt/one /mnt/two
