#!/usr/bin/env bash
# nfsserve 0.11.0: READDIR does not look at its cookie. Each page is the first one, without the end
# mark, so that a directory with more than one page cannot be listed by READDIR; READDIRPLUS goes on.
#
# Seen: "READDIR True, READDIRPLUS False" (the second page begins with the first name again). Exit
# status 1 when that changes.
set -euo pipefail
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
mkdir "$work/src"
cat >"$work/Cargo.toml" <<'END'
[package]
name = "names"
version = "0.0.0"
edition = "2021"
[dependencies]
async-trait = "0.1"
nfsserve = "=0.11.0"
tokio = { version = "1", features = ["rt-multi-thread", "macros"] }
END
cat >"$work/src/main.rs" <<'END'
// A directory with the files 2 to 1000, whose names are their numbers.
use async_trait::async_trait;
use nfsserve::{nfs::*, tcp::*, vfs::*};
struct Names;
type R<T> = Result<T, nfsstat3>;
const NO: nfsstat3 = nfsstat3::NFS3ERR_ROFS;
fn attributes(id: fileid3) -> fattr3 {
    let ftype = if id == 1 { ftype3::NF3DIR } else { ftype3::NF3REG };
    fattr3 { ftype, mode: 0o755, nlink: 1, fileid: id, ..Default::default() }
}
#[async_trait]
impl NFSFileSystem for Names {
    fn capabilities(&self) -> VFSCapabilities { VFSCapabilities::ReadOnly }
    fn root_dir(&self) -> fileid3 { 1 }
    async fn lookup(&self, _: fileid3, _: &filename3) -> R<fileid3> { Err(nfsstat3::NFS3ERR_NOENT) }
    async fn getattr(&self, id: fileid3) -> R<fattr3> { Ok(attributes(id)) }
    async fn setattr(&self, _: fileid3, _: sattr3) -> R<fattr3> { Err(NO) }
    async fn read(&self, _: fileid3, _: u64, _: u32) -> R<(Vec<u8>, bool)> { Ok((vec![], true)) }
    async fn write(&self, _: fileid3, _: u64, _: &[u8]) -> R<fattr3> { Err(NO) }
    async fn create(&self, _: fileid3, _: &filename3, _: sattr3) -> R<(fileid3, fattr3)> { Err(NO) }
    async fn create_exclusive(&self, _: fileid3, _: &filename3) -> R<fileid3> { Err(NO) }
    async fn mkdir(&self, _: fileid3, _: &filename3) -> R<(fileid3, fattr3)> { Err(NO) }
    async fn remove(&self, _: fileid3, _: &filename3) -> R<()> { Err(NO) }
    async fn rename(&self, _: fileid3, _: &filename3, _: fileid3, _: &filename3) -> R<()> { Err(NO) }
    async fn symlink(&self, _: fileid3, _: &filename3, _: &nfspath3, _: &sattr3) -> R<(fileid3, fattr3)> { Err(NO) }
    async fn readlink(&self, _: fileid3) -> R<nfspath3> { Err(NO) }
    async fn readdir(&self, _: fileid3, after: fileid3, most: usize) -> R<ReadDirResult> {
        let ids: Vec<u64> = (after.max(1) + 1..=1000).take(most).collect();
        let end = ids.last().is_none_or(|last| *last == 1000);
        let entry = |id: u64| DirEntry { fileid: id, name: id.to_string().into_bytes().into(), attr: attributes(id) };
        Ok(ReadDirResult { entries: ids.into_iter().map(entry).collect(), end })
    }
}
#[tokio::main]
async fn main() {
    let address = std::env::args().nth(1).unwrap();
    NFSTcpListener::bind(&address, Names).await.unwrap().handle_forever().await.unwrap();
}
END
cargo build --quiet --manifest-path "$work/Cargo.toml" --target-dir "$work/target"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$work/target/debug/names" "127.0.0.1:$port" &
server=$!
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do kill -0 "$server"; sleep 0.1; done

python3 - "$port" <<'END' | tee "$work/seen"
import socket, struct, sys

connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))

def opaque(data):
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)

def exactly(count):
    data = b""
    while len(data) < count:
        data += connection.recv(count - len(data)) or sys.exit("closed")
    return data

def call(program, procedure, arguments):
    head = struct.pack(">IIIIII", procedure, 0, 2, program, 3, procedure)
    data = head + bytes(16) + arguments
    connection.sendall(struct.pack(">I", 1 << 31 | len(data)) + data)
    (mark,) = struct.unpack(">I", exactly(4))
    return exactly(mark & 0x7FFFFFFF)[24:]

def page(procedure, cookie, counts):
    """The number of the first entry, which is its cookie, too."""
    answer = call(100003, procedure, root + struct.pack(">Q", cookie) + bytes(8) + counts)
    assert answer[:8] == struct.pack(">II", 0, 1)  # OK, and attributes of the directory
    return struct.unpack(">IQ", answer[100:112])[1]

answer = call(100005, 1, opaque(b"/"))
root = opaque(answer[8 : 8 + struct.unpack(">I", answer[4:8])[0]])
again = []
for procedure, counts in ((16, struct.pack(">I", 1024)), (17, struct.pack(">II", 1024, 4096))):
    first = page(procedure, 0, counts)
    again.append(page(procedure, first, counts) == first)
print(f"READDIR {again[0]}, READDIRPLUS {again[1]}")
END
[ "$(cat "$work/seen")" = 'READDIR True, READDIRPLUS False' ]
