# Read by run.sh and compare.sh: what the clients find, what they do, and what came of it.
#
# A driver is called with host, export and a folder of its own in that. It does 13 operations and
# prints a line for each, the operation and a cell:
#
#   ok       done, and looked at afterwards: as it should be
#   ROFS     or another status that the server gave
#   refused  the library says that it failed, and not why
#   none     the library has no call for it that works
#   wrong    done, and not as it should be, or the library failed; see the log
#   lost     the library says it is done, and it is not there (found by check_state)
#   died     the driver said nothing about it
#
# The operations:
#
#   mount     MNT of the export with ports from the port mapper, and UMNT where the library has it
#   getattr   size and type of /content
#   list      all 2,000 names of /many, each once
#   read      3 MiB and 5 bytes of /content, all as they should be
#   mkdir     a directory of mode 0750
#   create    a file of mode 0640
#   write     3 MiB and 5 bytes to a file that is there, FILE_SYNC, and read again
#   commit    100,000 bytes UNSTABLE, COMMIT, and read again
#   truncate  from 5,000 bytes to 1,000
#   rename    into another directory
#   symlink   one that is there is read; one is made, and read
#   link      a second name, and the count is 2
#   remove    a file and a directory

OPERATIONS=(mount getattr list read mkdir create write commit truncate rename symlink link remove)

content() { seq -f '%015.0f' 0 199999 | head -c $(((3 << 20) + 5)) || true; }

# make_tree DIRECTORY CLIENT...
make_tree() {
    local tree=$1 client
    shift
    mkdir -p "$tree/many"
    content >"$tree/content"
    ln -s content "$tree/link"
    (cd "$tree/many" && touch $(printf 'name-%04d ' {1..2000}))
    for client in "$@"; do
        mkdir -p "$tree/$client/place" "$tree/$client/empty"
        echo before >"$tree/$client/old"
        : >"$tree/$client/unstable"
        head -c 5000 "$tree/content" >"$tree/$client/long"
        echo before >"$tree/$client/before"
        echo victim >"$tree/$client/victim"
    done
}

# check_state FOLDER OPERATION: whether in the folder of a driver that operation was done.
check_state() {
    case $2 in
        mkdir) [ -d "$1/folder" ] ;;
        create) [ -f "$1/created" ] ;;
        write) content | cmp -s - "$1/old" ;;
        commit) content | head -c 100000 | cmp -s - "$1/unstable" ;;
        truncate) [ "$(stat -c %s "$1/long")" = 1000 ] ;;
        rename) [ -f "$1/place/after" ] && [ ! -e "$1/before" ] ;;
        symlink) [ "$(readlink "$1/symlink")" = ../content ] ;;
        link) [ -f "$1/second" ] ;;
        remove) [ ! -e "$1/victim" ] && [ ! -e "$1/empty" ] ;;
    esac
}

# cells CLIENT HOST EXPORT LOG: runs a driver; its cells by operation are in the array `cell`.
declare -A cell
run_driver() {
    local operation found
    # It only ends what hangs.
    timeout "${DRIVER_SECONDS:-300}" "$INSTALLED/$1/run" "$2" "$3" "$1" >"$4.cells" 2>"$4" || echo "status $?" >>"$4"
    for operation in "${OPERATIONS[@]}"; do cell[$operation]=died; done
    while IFS=$'\t' read -r operation found; do
        [ -z "${cell[$operation]-}" ] || cell[$operation]=$found
    done <"$4.cells"
}

# What a driver says that it has done, in the folder FOLDER of this machine.
check_cells() { # FOLDER
    local operation
    for operation in "${OPERATIONS[@]}"; do
        [ "${cell[$operation]}" != ok ] || check_state "$1" "$operation" || cell[$operation]=lost
    done
}

# The row of the document.
row() { # CLIENT VERSION EXPORT
    local operation
    printf '| %s %s | %s |' "$1" "$2" "$3"
    for operation in "${OPERATIONS[@]}"; do
        printf ' %s |' "$(sed 's/^none$/-/' <<<"${cell[$operation]}")"
    done
    echo
}

version_of() { # CLIENT
    "$here/install.sh" --list | awk -v name="$1" '$1 == name { print $2 }'
}

# In a network and a mount name space of its own; the port mapper is asked at its usual port.
enter_own_network() { # SCRIPT ARGUMENT...
    [ -z "${STRANGERS_INSIDE-}" ] || return 0
    [ "$(id -u)" = 0 ] || { echo 'skipped: clients from reserved ports take root' >&2; exit 77; }
    STRANGERS_INSIDE=yes exec unshare -n -m bash "$@"
}
