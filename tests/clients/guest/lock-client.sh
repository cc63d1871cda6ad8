# Read by the parts of guest-locks: a kernel client that locks across the network.

# become NAME: the name that the server knows this machine by, and what its kernel asks to be told
# of restarts.
become() {
    echo "$1" >/proc/sys/kernel/hostname
    mkdir -p /run/rpcbind /var/lib/nfs/{sm,sm.bak}
    rpcbind -w || fail 'rpcbind'
    rpc.statd --no-notify || fail 'rpc.statd'
}

mount_with_locks() { # DIRECTORY
    mkdir -p "$1"
    local options=vers=3,tcp,port=$PORT,mountport=$MOUNT_PORT
    mount -t nfs -o "$options,nosharecache,actimeo=1,lookupcache=none" 10.0.2.2:/ "$1"
}

# range DESCRIPTOR r|w|u OFFSET LENGTH: a lock of the open file of a descriptor (fcntl F_OFD_SETLK),
# which outlives the program that takes it. range_of FILE ...: that of a program that then ends.
LOCK_RANGE='
    use Fcntl;
    my ($what, $kind, $offset, $length) = @ARGV;
    my $is_open = $what =~ /^\d+$/;
    open(my $file, $is_open ? "+<&=" : "+<", $what) or die "$what: $!";
    my %kinds = (r => F_RDLCK, w => F_WRLCK, u => F_UNLCK);
    my $lock = pack("s s x4 q q l x4", $kinds{$kind}, 0, $offset, $length, 0);
    exit(fcntl($file, $is_open ? 37 : F_SETLK, $lock) ? 0 : 1);'
range() { perl -e "$LOCK_RANGE" "$@"; }
range_of() { perl -e "$LOCK_RANGE" "$@"; }
