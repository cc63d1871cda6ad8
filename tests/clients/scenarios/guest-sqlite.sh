# A database on a kernel client: SQLite and its own test programs, on ext4 in a disk image that is
# mounted from here, and on the RAM export.
. "$(dirname "$0")/../lib.sh"

mkdir "$SCRATCH/disks"
truncate -s 64m "$SCRATCH/disks/disk.img"
serve --squash none "/image=image:$SCRATCH/disks/disk.img" /ram=ram:128m
programs=()
status=0
folder=$("$REPOSITORY/tests/guest/sqlite.sh") || status=$?
case $status in
    0) programs=("$folder") ;;
    # The shell of SQLite alone is less of a test, and says so.
    77) echo "the source of SQLite cannot be had: its test programs are left out" ;;
    *) fail "tests/guest/sqlite.sh: status $status" ;;
esac
guest sqlite "${programs[@]}"
stop_server

# What is in the image now is a clean file system with whole databases.
e2fsck -fn "$SCRATCH/disks/disk.img"
names=(shell-delete shell-wal)
[ "${#programs[@]}" = 0 ] || names+=(speed-delete processes-delete)
for name in "${names[@]}"; do
    debugfs -R "dump /$name $SCRATCH/$name" "$SCRATCH/disks/disk.img"
    [ -s "$SCRATCH/$name" ] || fail "$name is not in the image"
    [ "$(sqlite3 "$SCRATCH/$name" 'PRAGMA integrity_check')" = ok ] || fail "$name is damaged"
done
[ "$(sqlite3 "$SCRATCH/shell-wal" 'SELECT count(*), sum(number) FROM rows')" = '400|80200' ] ||
    fail 'rows are missing'
