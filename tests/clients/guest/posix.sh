# Part of guest-posix. Each function is one subject, run in an empty directory of each export.
. /job/lib.sh
. /job/exports

open_files() {
    echo one >old
    exec 3>>old 4<old
    rm old
    [ ! -e old ] || fail 'old is still there'
    echo two >&3
    forget
    equal $'one\ntwo' "$(cat <&4)" 'an unlinked file that is open'
    exec 3>&- 4>&-
    equal '' "$(ls -A)" 'what is left of an unlinked open file'

    echo first >name
    exec 3<name
    echo second >other
    mv other name
    equal first "$(cat <&3)" 'a file that another was renamed over'
    equal second "$(cat name)" 'the file that was renamed over it'
    exec 3>&-
    equal name "$(ls -A)" 'after rename over an open file'

    exec 3>>name
    mkdir below
    mv name below/moved
    echo third >&3
    exec 3>&-
    equal $'second\nthird' "$(cat below/moved)" 'a file moved while it is open'
}

rights() {
    chmod 755 .
    as 1001 true
    refused as 1001 touch forbidden
    mkdir -m 777 open
    as 1001 sh -c 'umask 077; echo secret >open/private; echo public >open/public'
    chmod 644 open/public
    equal 1001:1001 "$(stat -c %u:%g open/private)" 'owner of a new file'
    refused as 1002 cat open/private
    equal public "$(as 1002 cat open/public)" 'public file'
    refused as 1002 sh -c 'echo no >>open/public'
    refused as 1002 chmod 666 open/public
    refused as 1001 chown 1002 open/public
    # A file that its mode makes read-only may be written through the descriptor that made it.
    as 1001 sh -c 'umask 0333; exec 3>open/read-only; echo written >&3; exec 3>&-'
    equal 'written 444' "$(cat open/read-only) $(stat -c %a open/read-only)" 'read-only file'
    # Groups beyond the first count.
    touch team
    chown 0:1100 team
    chmod 660 team
    refused as 1001 cat team
    setpriv --reuid 1001 --regid 1001 --groups 1100 -- sh -c 'echo team >>team'
    # Sticky: one may not remove what belongs to another.
    chmod 1777 open
    refused as 1002 rm -f open/public
    as 1001 rm open/public
    # Set-group-id directories hand on their group; chown takes set-user-id away.
    mkdir -m 2777 group
    chown 0:1100 group
    chmod 2777 group
    as 1001 touch group/inherits
    equal 1100 "$(stat -c %g group/inherits)" 'group of a file in a set-group-id directory'
    install -m 4755 /dev/null suid
    chown 1001 suid
    equal 755 "$(stat -c %a suid)" 'mode after chown'
}

links_and_special_files() {
    echo data >file
    ln file second
    equal "2 $(stat -c %i file)" "$(stat -c '%h %i' second)" 'hard link'
    rm file
    equal 'data 1' "$(cat second) $(stat -c %h second)" 'after the first name went'
    ln -s 'no such/target with spaces' dangling
    equal 'no such/target with spaces' "$(readlink dangling)" 'symbolic link'
    refused cat dangling
    ln -s "$(printf 'x%.0s' {1..1000})" long-link
    equal 1000 "$(readlink long-link | tr -d '\n' | wc -c)" 'long symbolic link'
    mkfifo pipe
    mknod null c 1 3
    mknod disk b 8 1
    equal 'fifo character special file block special file' "$(stat -c %F pipe null disk | xargs)" types
    equal '1:3 8:1' "$(stat -c '%t:%T' null disk | xargs)" 'device numbers'
    echo gone >null
    (echo through >pipe) &
    equal through "$(cat pipe)" 'pipe'
    wait
    perl -MSocket -e 'socket(my $s, PF_UNIX, SOCK_STREAM, 0); bind($s, sockaddr_un("sock")) or die $!'
    equal socket "$(stat -c %F sock)" 'socket'
    refused ln . directory-link
    refused rmdir second
    mkdir full
    touch full/file
    refused rmdir full
    mkdir full/inside
    refused mv full full/inside
    mkdir empty
    mv -T full empty
    equal 'file inside' "$(ls empty | xargs)" 'a directory renamed over an empty one'
}

sizes_and_times() {
    printf abcdef >file
    truncate -s 3 file
    truncate -s 8 file
    equal '616263 0000000000' "$(od -An -tx1 file | tr -d ' \n' | sed 's/^\(.\{6\}\)/\1 /')" truncated
    printf xyz >>file
    equal 11 "$(stat -c %s file)" 'size after appending'
    (for i in {1..50}; do echo "a $i" >>log; done) &
    for i in {1..50}; do echo "b $i" >>log; done
    wait
    equal 100 "$(wc -l <log)" 'lines of two writers of this client'

    # 5 GiB with almost nothing in it.
    truncate -s 5G sparse
    printf end | dd of=sparse bs=1 seek=5368709117 conv=notrunc status=none
    equal 5368709120 "$(stat -c %s sparse)" 'size of a sparse file'
    equal end "$(tail -c 3 sparse)" 'end of a sparse file'
    [ "$(du -k sparse | cut -f1)" -lt 10240 ] || fail 'the sparse file is not sparse'

    touch -d '1999-12-31 23:59:59.123456789' file
    equal 946684799.123456789 "$(TZ=UTC stat -c %.9Y file)" 'time of modification'
    touch -d @2240611200 file
    equal 2240611200 "$(stat -c %Y file)" 'a time after 2038'
    before=$(stat -c %Z file)
    sleep 1.1
    chmod 600 file
    [ "$(stat -c %Z file)" -gt "$before" ] || fail 'the time of change did not move'

    for name in 'with space' $'line\nbreak' $'\xff\xfe not UTF-8' 'naïve' "$(printf 'n%.0s' {1..255})"; do
        echo "$name" >"$name"
        equal "$name" "$(cat "$name")" 'odd name'
    done
    refused touch "$(printf 'n%.0s' {1..256})"
    rm "$(printf 'n%.0s' {1..255})"
}

exclusive_and_locks() {
    perl -MFcntl -e '
        sysopen(my $file, "new", O_CREAT | O_EXCL | O_RDWR, 0640) or die "first: $!";
        !sysopen(my $again, "new", O_CREAT | O_EXCL | O_RDWR) or die "twice";
        $!{EEXIST} or die "wrong error: $!";
    '
    equal 640 "$(stat -c %a new)" 'mode of a file created exclusively'
    # Among the programs of one client locks hold, with nolock too.
    exec 3>new
    flock -n 3
    ! flock -n new true || fail 'two locks'
    exec 3>&-
    flock -n new true
    for i in {1..4}; do mkdir race 2>/dev/null && echo won >>winners & done
    wait
    equal 1 "$(wc -l <winners)" 'winners of a race for a directory'
}

mappings() { /job/mapping .; }

space() {
    df . >/tmp/df
    if [ "$1" = ram ]; then
        refused dd if=/dev/zero of=large bs=1M count=40 status=none
        rm large
        dd if=/dev/zero of=large bs=1M count=24 status=none
        rm large
    fi
}

for export in $exports; do
    mount_export "/$export" "/mnt/$export"
    for subject in open_files rights links_and_special_files sizes_and_times exclusive_and_locks \
        mappings space; do
        mkdir -m 777 "/mnt/$export/$subject"
        cd "/mnt/$export/$subject"
        umask 022
        $subject "$export"
        step "$export: $subject"
    done
    cd /
    rm -r /mnt/"$export"/*
    umount "/mnt/$export"
done
