# Part of guest-tree: copies the tree in and out of each export.
. /job/lib.sh

for export in dir ram; do
    mount_export "/$export" "/mnt/$export"
    mkdir "/mnt/$export/tree"
    tar -x -C "/mnt/$export/tree" -f /job/tree.tar
    umount "/mnt/$export"
    # Mounted again: nothing is cached, all of it is read from the server.
    mount_export "/$export" "/mnt/$export"
    sums "/mnt/$export/tree" | diff /job/sums - || fail "the tree differs in $export"
    step "$export: $(wc -l </job/sums) files are equal"
done

# Out of one export and into the other, times and modes kept.
cp -a /mnt/dir/tree /mnt/ram/copy
forget
diff -r --no-dereference /mnt/dir/tree /mnt/ram/copy || fail 'copy between exports'
step 'copied between exports'
list() { (cd "$1" && find . -printf '%p %m %U %G %T@ %y %l\n' | sort); }
diff <(list /mnt/dir/tree) <(list /mnt/ram/copy) || fail 'modes, owners or times differ'
tar -c -C /mnt/dir/tree mixed | tar -x -C /tmp
sums /tmp/mixed | diff <(sed -n 's, \./mixed/, ./,p' /job/sums) - || fail 'copy out of dir'
step 'copied out'

mount_export /iso /mnt/iso
sums /mnt/iso | diff /job/sums - || fail 'the tree differs in the image'
equal ../hello.txt "$(readlink /mnt/iso/mixed/sub/link)" 'link in the image'
refused touch /mnt/iso/new
step 'image compared'

rm -r /mnt/dir/tree/crates /mnt/ram/tree /mnt/ram/copy
[ -z "$(ls -A /mnt/ram)" ] || fail 'something is left after rm -r'
tar -x -C /mnt/dir/tree -f /job/tree.tar ./crates
umount /mnt/dir /mnt/ram /mnt/iso
step 'removed and written again'
