# Runs in the emulated machine: mounts the export as a Linux kernel does, and works in it until the
# host says so. Prints how much it did. Fails with what went wrong.
set -euo pipefail
mkdir -p /mnt/data
mount -t nfs -o vers=3,tcp,nolock,hard,port=2049,mountport=2049 10.0.2.2:/data /mnt/data
cd /mnt/data
touch guest-works
round=0
while [ ! -e guest-stop ]; do
    round=$((round + 1))
    mkdir "guest-$round"
    echo $round >"guest-$round/a"
    [ "$(cat "guest-$round/a")" = $round ]
    mv "guest-$round/a" "guest-$round/b"
    ln "guest-$round/b" "guest-$round/c"
    rm "guest-$round/b" "guest-$round/c"
    rmdir "guest-$round"
done
cd /
umount /mnt/data
echo "$round rounds"
