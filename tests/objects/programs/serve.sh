# A bucket that is served over NFS, to programs of libnfs.
. "$(dirname "$0")/../lib.sh"

start_store
mkdir "$SCRATCH/from"
make_tree "$SCRATCH/from"
head -c 40000000 /dev/urandom >"$SCRATCH/from/big"
serve --squash none --cache 8m --staging-dir "$SCRATCH/staging" "/bucket=$(bucket)"

for file in hello.txt empty big sub/odd-size sub/naïve-日本語 sub/-dash 'sub/with space'; do
    name=${file##*/}
    copy_in "$SCRATCH/from/$file" "/bucket/$name"
    # What COMMIT was answered for is an object.
    same_file "$SCRATCH/from/$file" "$BUCKET/$name"
    copy_out "/bucket/$name" "$SCRATCH/out"
    same_file "$SCRATCH/from/$file" "$SCRATCH/out"
done
stop_server
nothing_staged

# Another server of the bucket has it all.
serve_again
copy_out /bucket/big "$SCRATCH/out"
same_file "$SCRATCH/from/big" "$SCRATCH/out"
stop_server
