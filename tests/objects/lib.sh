# Read by the scenarios in programs/: a bucket of a store of others, and mounts of it.
. "$(dirname "${BASH_SOURCE[0]}")/../clients/lib.sh"
. "$CLIENTS/fuse.sh"
. "$CLIENTS/programs.sh"

OBJECTS=$REPOSITORY/tests/objects
# The dummies of servers.sh, and nothing is asked for what they do not give.
export AWS_ACCESS_KEY_ID=pagewell-test AWS_SECRET_ACCESS_KEY=pagewell-test-secret
export AWS_EC2_METADATA_DISABLED=true AWS_REGION=us-east-1
STORE=
STORE_NAME=${PAGEWELL_OBJECT_SERVER:-versitygw}
# The account of servers.sh, where it is Azure's kind.
export AZURE_STORAGE_ACCOUNT=pagewelltest AZURE_STORAGE_KEY=cGFnZXdlbGwtdGVzdC1zZWNyZXQ=
STORE_PORT=
# This one takes no heed of the conditions of an upload's end (docs/INTEROPERABILITY.md).
WRITES=()
[ "$STORE_NAME" != fake-gcs-server ] || WRITES=(--object-writes=unguarded)

# Starts the store, on the port that it had before.
start_store() {
    local waited=0
    mkdir -p "$SCRATCH/store"
    : >"$SCRATCH/store.ready"
    STORE_PORT=${STORE_PORT:-$(free_port)}
    "$OBJECTS/servers.sh" run --port "$STORE_PORT" "$STORE_NAME" "$SCRATCH/store" \
        >"$SCRATCH/store.ready" 2>>"$SCRATCH/store.log" &
    STORE=$!
    until grep -q '^ready ' "$SCRATCH/store.ready"; do
        kill -0 "$STORE" 2>/dev/null || { cat "$SCRATCH/store.log"; fail "$STORE_NAME ended"; }
        [ $((waited += 1)) -le 2400 ] || fail "$STORE_NAME was not ready after two minutes"
        sleep 0.05
    done
    # The folder with the bucket, as the stores keep their objects that are used here; azurite and
    # fake-gcs-server have none, and run what does not look into it.
    BUCKET=$SCRATCH/store/bucket
}

# Ends it as a crash does.
kill_store() {
    local server
    server=$(pgrep -P "$STORE")
    # shellcheck disable=SC2086 # a list
    kill -KILL $server
    wait "$STORE" 2>/dev/null || true
    STORE=
}

end_started() {
    [ -z "$STORE" ] || kill "$STORE" 2>/dev/null || true
    [ -z "$STORE" ] || wait "$STORE" || true
}

bucket() { # [PREFIX [OPTION...]]: its URL, of what is below PREFIX
    local prefix=${1-}
    [ $# = 0 ] || shift
    local scheme=s3
    case $STORE_NAME in
        azurite) scheme=az ;;
        fake-gcs-server)
            scheme=gs
            set -- "$@" anonymous=true
            ;;
    esac
    printf '%s://bucket/%s?endpoint=http://127.0.0.1:%s' "$scheme" "$prefix" "$STORE_PORT"
    [ $# = 0 ] || printf '&%s' "$@"
}

# mount_bucket [ARGUMENT...] URL: with little memory, so that most of what is written goes through
# the staging folder.
mount_bucket() {
    mounted --cache "${CACHE:-8m}" --staging-dir "$SCRATCH/staging" "${WRITES[@]}" "$@"
}

# What must be empty once all is in the store.
nothing_staged() {
    local left
    left=$(find "$SCRATCH/staging" -type f ! -name bucket)
    [ -z "$left" ] || fail "left in the staging folder: $left"
}
