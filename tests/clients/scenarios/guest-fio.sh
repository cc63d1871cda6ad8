# Random reads and writes of a kernel client, each block verified: buffered, direct and
# synchronous, several jobs at once, on a directory and in memory.
. "$(dirname "$0")/../lib.sh"

mkdir "$SCRATCH/served"
serve --squash none "/dir=$SCRATCH/served" /ram=ram:256m
guest fio
stop_server
