# Copies files into and out of a directory and a RAM file system with libnfs.
. "$(dirname "$0")/../lib.sh"

mkdir "$SCRATCH/served" "$SCRATCH/from"
make_tree "$SCRATCH/from"
head -c 314572800 /dev/urandom >"$SCRATCH/from/big"
serve --squash none "/dir=$SCRATCH/served" /ram=ram:512m

for export in /dir /ram; do
    for file in hello.txt empty big sub/odd-size sub/naïve-日本語 sub/-dash 'sub/with space'; do
        name=${file##*/}
        copy_in "$SCRATCH/from/$file" "$export/$name"
        copy_out "$export/$name" "$SCRATCH/out"
        same_file "$SCRATCH/from/$file" "$SCRATCH/out"
        [ $export != /dir ] || same_file "$SCRATCH/from/$file" "$SCRATCH/served/$name"
    done
done

# What a local program changes is seen at once.
printf 'changed by a local program\n' >"$SCRATCH/served/hello.txt"
copy_out /dir/hello.txt "$SCRATCH/out"
same_file "$SCRATCH/served/hello.txt" "$SCRATCH/out"

# 300 of 512 MiB are used: another 300 do not fit, and what is there stays readable.
nfs-cp "$SCRATCH/from/big" "$(url /ram/big-2)" >"$SCRATCH/nfs-cp.log" 2>&1 &&
    fail '600 MiB fitted into a RAM file system of 512 MiB'
copy_out /ram/big "$SCRATCH/out"
same_file "$SCRATCH/from/big" "$SCRATCH/out"
stop_server
