# Mounts that a configuration file names: one, all of them, beside one that is wrong.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"

need_fuse
cd "$SCRATCH"
mkdir tree near second
echo text >tree/file
file=$SCRATCH/pagewell.toml
cat >"$file" <<'END'
[[mount]]
source = "tree"
directory = "mnt"
options = "ro,nofail"
[[mount]]
source = "ram:1m"
directory = "near"
options = "noauto"
[[mount]]
source = "ram:1m"
directory = "second"
[[mount]]
source = "ram:1m"
directory = "third"
options = "or"
END

# One, in the foreground, with an option besides; it ends in order.
mkdir third
"$PAGEWELL" mount --foreground --config "$file" -o noexec "$MOUNT" >ready 2>mount.log &
MOUNTER=$!
until grep -q '^ready ' ready; do
    kill -0 "$MOUNTER" || fail 'the mount ended'
    sleep 0.05
done
[ "$(cat "$MOUNT/file")" = text ] || fail 'another source'
options=$(awk -v place="$MOUNT" '$2 == place { print $4 }' /proc/mounts)
[[ ,$options, == *,ro,*noexec* ]] || fail "options: $options"

# All that are not there yet, but for noauto; the wrong one is said and fails, and no other does.
status=0
"$PAGEWELL" mount --config "$file" --all 2>all.log || status=$?
[ "$status" = 1 ] || fail "status $status: $(cat all.log)"
grep -q 'pagewell.toml:15: options = "or": -o or: unknown' all.log || fail "$(cat all.log)"
places=$(awk -v base="$SCRATCH/" 'index($2, base) == 1 { print substr($2, length(base) + 1) }' \
    /proc/mounts | sort | xargs)
[ "$places" = 'mnt second' ] || fail "mounted: $places"
sed -i 's/"or"/"noauto"/' "$file"
"$PAGEWELL" mount --config "$file" --all 2>all.log || fail "again: $(cat all.log)"
[ ! -s all.log ] || fail "what is there is mounted again: $(cat all.log)"

kill -TERM "$MOUNTER"
mount_ended
"$PAGEWELL" umount second
"$PAGEWELL" mount --config "$file" second 2>one.log || fail "$(cat one.log)"
"$PAGEWELL" umount second
