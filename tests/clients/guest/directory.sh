# Part of guest-directory.
. /job/lib.sh

seq -f 'entry-%05.0f' 1 20000 >/tmp/names

for export in dir iso; do
    mount_export "/$export" "/mnt/$export"
    ls "/mnt/$export/many" | sort | diff -q /tmp/names - || fail "ls of $export"
    umount "/mnt/$export"
    step "$export: listed"
done

mount_export /dir /mnt/dir nordirplus
ls -U /mnt/dir/many | sort | diff -q /tmp/names - || fail 'ls without READDIRPLUS'
umount /mnt/dir
step 'dir: listed without READDIRPLUS'

# Removed while it is listed: what stays is seen exactly once.
mount_export /dir /mnt/dir
cd /mnt/dir/many
perl -e '
    opendir my $directory, "." or die "opendir: $!";
    my (%seen, $count);
    while (defined(my $name = readdir $directory)) {
        next if $name =~ /^\./;
        die "$name twice\n" if $seen{$name}++;
        next if $name =~ /^new/;
        # Some go, as soon as they were seen; new ones come.
        if (++$count % 10 == 0) { unlink $name or die "unlink $name: $!"; }
        if ($count % 100 == 0) { open my $new, ">", "new-$count" or die "open: $!"; }
    }
    my $old = grep { /^entry/ } keys %seen;
    die "$old of 20000 seen\n" if $old != 20000;
' || fail 'listing while removing'
step 'dir: listed while entries were removed and added'
cd /
equal 18000 "$(ls -U /mnt/dir/many | grep -c ^entry)" 'entries that are left'

mount_export /ram /mnt/ram
mkdir /mnt/ram/many
cd /mnt/ram/many
perl -e 'for (1..3000) { open my $file, ">", sprintf "entry-%05d", $_ or die "open: $!" }'
step 'ram: files created'
forget
ls | sort | diff -q <(head -n 3000 /tmp/names) - || fail 'ls of ram'
cd /
rm -r /mnt/ram/many
[ -z "$(ls -A /mnt/ram)" ] || fail 'ram is not empty'
step 'ram: listed and emptied'
