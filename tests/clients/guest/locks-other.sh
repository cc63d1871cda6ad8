# Part of guest-locks: the second kernel.
. /job/lib.sh
. /job/lock-client.sh

become bert
mount_with_locks /mnt/one
cd /mnt/one
until [ -e held ]; do sleep 1; done
refused flock -n shared true
touch tried
# It waits, and its kernel asks again after half a minute at the latest.
flock -w 300 shared echo 'the lock is here' || fail 'the lock never came'
touch done
cd /
umount /mnt/one
