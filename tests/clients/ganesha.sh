# Read by the scenarios that use nfs-ganesha, after lib.sh: runs the scenario in a network of its
# own, because nfs-ganesha registers with the port mapper. Then start_ganesha can be called; what it
# starts is ended with the scenario.

is_root || skip 'nfs-ganesha opens files by handle, which takes root'
for program in ganesha.nfsd rpcbind ip; do
    command -v $program >/dev/null || skip "$program is missing"
done
if [ -z "${GANESHA_INSIDE-}" ]; then
    unshare -n -m true 2>/dev/null || skip 'no network of its own is permitted'
    # Nothing is to be ended yet.
    trap - EXIT ERR
    GANESHA_INSIDE=yes exec unshare -n -m bash "$0"
fi
"$REPOSITORY/tests/clients/alone.sh"
die() { fail "$@"; }
. "$REPOSITORY/scripts/ganesha.sh"
prepare_network || fail 'the network of its own cannot be set up'
