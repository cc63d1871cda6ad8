# The line of README.md for the guest.
. /job/lib.sh

mkdir -p /mnt
sh -e /job/mount-line || fail 'the line ends with an error'
[ "$(cat /mnt/file)" = shared ] || fail 'the file'
echo answer >/mnt/answer
umount /mnt
