# Part of guest-mount.
. /job/lib.sh

# The last word is where to mount; the word before it names the server.
read -ra words </job/command
count=${#words[@]}
words[count - 1]=/mnt/here
words[count - 2]=10.0.2.2:/dir
mkdir /mnt/here
echo "${words[@]}"
"${words[@]}"
cmp /mnt/here/hello.txt /job/hello.txt
grep ' /mnt/here nfs ' /proc/mounts
options=$(grep ' /mnt/here nfs ' /proc/mounts)
for option in vers=3 rsize=1048576 wsize=1048576 proto=tcp; do
    [[ $options == *$option* ]] || fail "not mounted with $option"
done
umount /mnt/here

# What is above the exports leads into each, which the kernel mounts by itself.
mount_export / /mnt/all
equal $'dir\nram' "$(ls /mnt/all)" 'the exports above them'
cmp /mnt/all/dir/hello.txt /job/hello.txt
echo new >/mnt/all/ram/file
equal new "$(cat /mnt/all/ram/file)" 'a file written below the root'
grep ' /mnt/all/ram nfs ' /proc/mounts
[ "$(stat -c %d /mnt/all/ram)" != "$(stat -c %d /mnt/all/dir)" ] || fail 'two exports are one device'
equal 1 "$(find /mnt/all -name file | wc -l)" 'files that find finds'
refused mkdir /mnt/all/new
rm /mnt/all/ram/file
umount /mnt/all/dir /mnt/all/ram /mnt/all

refused mount_export /absent /mnt/absent
for i in {1..5}; do
    mount_export /ram /mnt/ram
    umount /mnt/ram
done
# One mount over several connections, and one that may be interrupted.
mount_export /ram /mnt/ram soft,nconnect=8
for i in {1..16}; do dd if=/dev/urandom of="/mnt/ram/$i" bs=64k count=8 status=none & done
wait
equal 16 "$(ls /mnt/ram | wc -l)" 'files written over eight connections'
umount /mnt/ram
