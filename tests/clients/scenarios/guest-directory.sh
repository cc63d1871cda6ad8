# A kernel client lists and searches directories of 20,000 entries.
. "$(dirname "$0")/../lib.sh"

mkdir -p "$SCRATCH/served/many"
(cd "$SCRATCH/served/many" && seq -f 'entry-%05.0f' 1 20000 | xargs touch)
chmod -R a+rwX "$SCRATCH/served"
make_iso "$SCRATCH/many.iso" "$SCRATCH/served"

serve --squash none "/dir=$SCRATCH/served" "/iso=$SCRATCH/many.iso" /ram=ram:64m
nfs-ls "$(url /dir/many)" >"$SCRATCH/listing"
[ "$(awk '{ print $NF }' "$SCRATCH/listing" | sort -u | wc -l)" = 20000 ] ||
    fail "libnfs finds $(wc -l <"$SCRATCH/listing") entries"
guest directory
[ "$(find "$SCRATCH/served/many" -name 'entry-*' | wc -l)" = 18000 ] || fail 'entries on the host'
stop_server
