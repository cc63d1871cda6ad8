# git, make, tar, rsync, cp and sqlite on a mounted bucket.
. "$(dirname "$0")/../lib.sh"

need_fuse
start_store
mount_bucket "$(bucket)"

# Two hundred commits of three hundred files.
history() {
    local commit file
    for commit in {1..200}; do
        printf 'commit refs/heads/trunk\ncommitter tester <tester@example.org> %d +0000\n' $((1700000000 + commit))
        printf 'data <<END\ncommit %d\nEND\n' "$commit"
        for file in $((commit % 300)) $((commit * 7 % 300)) $([ "$commit" != 1 ] || seq 300); do
            printf 'M 644 inline folder-%d/file-%d\ndata <<END\n' $((file % 10)) "$file"
            printf 'line %d\n' $(seq $((commit % 50 + file % 20)))
            printf 'END\n'
        done
    done
}

use_git "$MOUNT"
git init -q -b trunk "$SCRATCH/origin"
history | git -C "$SCRATCH/origin" fast-import --quiet
git clone -q --no-local "$SCRATCH/origin" "$MOUNT/clone"
[ -z "$(git -C "$MOUNT/clone" status --porcelain)" ] || fail 'git sees changes in a fresh clone'
sed -i 1d "$MOUNT/clone/folder-3/file-33"
git -C "$MOUNT/clone" -c user.name=tester -c user.email=tester@example.org commit -q -a -m more
git -C "$MOUNT/clone" fsck --strict
git clone -q --no-local "$MOUNT/clone" "$SCRATCH/back"
git -C "$SCRATCH/back" fsck --strict
[ "$(git -C "$SCRATCH/back" rev-list --count trunk)" = 201 ] || fail 'commits are missing'
diff -r --exclude .git "$MOUNT/clone" "$SCRATCH/back" || fail 'the clone of the clone differs'

# A library and a program of twenty files. make goes by times.
mkdir "$MOUNT/build"
for part in {1..20}; do
    printf 'int part_%d(void) { return %d; }\n' "$part" "$part" >"$MOUNT/build/part-$part.c"
done
{
    printf 'int part_%d(void);\n' {1..20}
    echo '#include <stdio.h>'
    echo "int main(void) { printf(\"%d\\n\", 0 $(printf '+ part_%d() ' {1..20})); return 0; }"
} >"$MOUNT/build/main.c"
cat >"$MOUNT/build/Makefile" <<'END'
parts := $(patsubst %.c,%.o,$(filter-out main.c,$(wildcard *.c)))
program: main.o libparts.a
	$(CC) -o $@ $^
libparts.a: $(parts)
	$(AR) rcs $@ $^
END
make_there() { make -j 4 -C "$MOUNT/build" >"$SCRATCH/make.log" 2>&1 || { cat "$SCRATCH/make.log"; fail make; }; }
# A copy is run: its mode does not depend on the mount.
runs() { cp "$MOUNT/build/program" "$SCRATCH/program"; chmod 755 "$SCRATCH/program"; "$SCRATCH/program"; }
make_there
[ "$(runs)" = 210 ] || fail 'the program that was built does not add'
make_there
grep -q 'up to date' "$SCRATCH/make.log" || { cat "$SCRATCH/make.log"; fail 'make built again'; }
sleep 1.1
sed -i 's/return 7;/return 8;/' "$MOUNT/build/part-7.c"
make_there
[ "$(runs)" = 211 ] || fail 'make did not see a change'
[ "$(grep -c -- ' -c ' "$SCRATCH/make.log")" = 1 ] || { cat "$SCRATCH/make.log"; fail 'make built more'; }

# Trees without links, which a bucket does not hold.
make_tree "$SCRATCH/tree"
rm "$SCRATCH/tree/sub/link"
if [ "$STORE_NAME" = azurite ]; then
    # Azure takes a backslash for a slash.
    rm "$SCRATCH/tree/sub/back\\slash"
    ! : 2>"$SCRATCH/refused" >"$MOUNT/back\\slash" || fail 'a backslash was taken'
fi
mkdir "$MOUNT/tar"
tar -c -C "$SCRATCH/tree" . | tar -x -C "$MOUNT/tar"
cp -a "$SCRATCH/tree" "$MOUNT/copied"
rsync -rt "$SCRATCH/tree/" "$MOUNT/synchronised"
again=$(rsync -rti --omit-dir-times "$SCRATCH/tree/" "$MOUNT/synchronised")
[ -z "$again" ] || fail "the second rsync copies $again"
cp -r "$MOUNT/tar" "$MOUNT/inside"
mv "$MOUNT/inside" "$MOUNT/moved"
sums "$SCRATCH/tree" >"$SCRATCH/sums"
for name in tar copied synchronised moved; do
    sums "$MOUNT/$name" | diff "$SCRATCH/sums" - || fail "the tree $name differs"
done
mkdir "$SCRATCH/out"
tar -c -C "$MOUNT/tar" . | tar -x -C "$SCRATCH/out"
sums "$SCRATCH/out" | diff "$SCRATCH/sums" - || fail 'the tree that came back differs'

use_sqlite "$MOUNT"
unmounted
nothing_staged

# Another mount, with nothing in memory, sees the same.
mount_bucket "$(bucket)"
sums "$MOUNT/copied" | diff "$SCRATCH/sums" - || fail 'the tree differs after another mount'
git -C "$MOUNT/clone" fsck --strict
[ -z "$(git -C "$MOUNT/clone" status --porcelain)" ] || fail 'git sees changes after another mount'
rm -r "$MOUNT"/*
[ -z "$(ls -A "$MOUNT")" ] || fail 'something is left after rm -r'
unmounted
