//! Servers that tell strange numbers, or none.

use pagewell_fs::{FileSystem, ReadReply, Result};
use pagewell_sunrpc::nfs3::{
    DecodeReply, FileAttributes, Procedure, ReaddirOk, ReaddirPlusEntry, ReaddirPlusReply,
};
use pagewell_sunrpc::xdr::{Decoder, Encoder, encode_item};

use super::without_attributes::{ATTRIBUTES_BYTES, STATUS_AT, Silencer, word};
use super::{Mount, pattern, server};
use crate::fixture::{export, ram, serve};
use crate::layer::{Event, Hook, Layer, make_file};

/// Where the file id is in `fattr3` (RFC 1813 section 2.5).
const FILE_ID_AT: usize = 52;

/// Writes the entries of a listing anew.
fn list_anew(record: &mut Vec<u8>, change: impl Fn(ReaddirPlusEntry<'_>) -> ReaddirPlusEntry<'_>) {
    let before = record.clone();
    let mut decoder = Decoder::new(&before[STATUS_AT..]);
    let Ok(page) = ReaddirPlusReply::decode_reply(&mut decoder).unwrap() else {
        return;
    };
    record.truncate(STATUS_AT + 4);
    let mut encoder = Encoder::new(record);
    ReaddirOk::encode_head(&mut encoder, &page.directory_attributes, &page.verifier);
    for entry in page.entries.iter() {
        encode_item(&mut encoder, &change(entry));
    }
    ReaddirOk::encode_tail(&mut encoder, page.end);
}

#[test]
fn limits_of_zero_are_none() {
    let (server, _) = server();
    let answer = |record: &mut Vec<u8>, number| {
        let limits_at = STATUS_AT + 8 + ATTRIBUTES_BYTES;
        if number == Procedure::Pathconf.number() {
            assert_eq!(word(record, STATUS_AT + 4), 1);
            record[limits_at..limits_at + 8].fill(0);
        }
    };
    let between = Silencer::with(&server, |_| true, answer);
    let limits = between.mount("").filesystem.limits();
    assert_eq!(limits.name_bytes_max, 255);
    assert!(limits.links_max > 1);
}

#[test]
fn sizes_that_no_call_can_have_are_brought_into_bounds() {
    for (told, transfer) in [(0, 1024), (1 << 30, 1 << 20), (u32::MAX, 1 << 20)] {
        let memory = ram();
        let bytes = pattern(20_000, 3);
        make_file(&*memory, b"file", &bytes);
        let server = serve(vec![export("/", memory)]);
        let answer = move |record: &mut Vec<u8>, number| {
            if number == Procedure::Fsinfo.number() {
                let sizes_at = STATUS_AT + 8 + ATTRIBUTES_BYTES;
                for at in (sizes_at..).step_by(4).take(7) {
                    record[at..at + 4].copy_from_slice(&told.to_be_bytes());
                }
            }
        };
        let between = Silencer::with(&server, |_| true, answer);
        let mount = between.mount("");
        assert_eq!(mount.filesystem.transfer_bytes(), (transfer, transfer));
        assert_eq!(mount.list(&mount.root(), true), ["file"]);
        let id = mount.lookup("file").unwrap();
        assert!(mount.read(&id).unwrap() == bytes, "{told}");
        mount.write(&id, 20_000, &bytes).unwrap();
        mount.close(&id).unwrap();
    }
}

/// Tells no numbers of objects.
fn without_numbers(record: &mut Vec<u8>, number: u32) {
    let is = |procedure: Procedure| procedure.number() == number;
    if record.len() < STATUS_AT + 8 || word(record, STATUS_AT) != 0 {
        return;
    }
    let hide = |record: &mut Vec<u8>, attributes_at: usize| {
        let at = attributes_at + FILE_ID_AT;
        record[at..at + 8].fill(0);
    };
    if is(Procedure::Getattr) && record.len() == STATUS_AT + 4 + ATTRIBUTES_BYTES {
        hide(record, STATUS_AT + 4);
    } else if is(Procedure::Lookup) {
        let handle_bytes = word(record, STATUS_AT + 4).next_multiple_of(4) as usize;
        hide(record, STATUS_AT + 12 + handle_bytes);
    } else if is(Procedure::Access) {
        hide(record, STATUS_AT + 8);
    } else if is(Procedure::ReaddirPlus) {
        list_anew(record, |entry| ReaddirPlusEntry {
            file_id: 0,
            attributes: entry.attributes.map(|attributes| FileAttributes {
                file_id: 0,
                ..attributes
            }),
            ..entry
        });
    }
}

#[test]
fn objects_that_have_no_number_get_one() {
    let memory = ram();
    for name in [b"one", b"two"] {
        make_file(&*memory, name, b"");
    }
    let server = serve(vec![export("/", memory)]);
    let between = Silencer::with(&server, |_| true, without_numbers);
    let mount = between.mount("");
    let mut listed = Vec::new();
    let mut visit = |entry: &pagewell_fs::DirectoryEntry<'_>| {
        if entry.name.starts_with(b".") {
            return true;
        }
        let attributes = entry.entry.expect("attributes").attributes;
        assert_eq!(entry.file_id, attributes.file_id);
        listed.push(entry.file_id);
        true
    };
    let (files, call, root) = (&mount.filesystem, mount.call(), mount.root());
    let page = files.read_directory(&call, &root, 0, true, &mut visit);
    assert!(page.unwrap().end);
    assert!(listed.iter().all(|number| *number != 0), "{listed:?}");
    assert!(listed.len() == 2 && listed[0] != listed[1], "{listed:?}");
    let other = between.mount("");
    let number = |name| other.attributes(&other.lookup(name).unwrap()).file_id;
    let mut asked = [number("one"), number("two")];
    asked.sort_unstable();
    listed.sort_unstable();
    assert_eq!(asked, *listed);
}

/// Does not say where the end is.
struct TellsNoEnd;

impl Hook for TellsNoEnd {
    fn before(&self, _: &Event<'_>) -> Result<()> {
        Ok(())
    }

    fn reply(&self, mut inner: ReadReply) -> ReadReply {
        inner.end_of_file = false;
        inner
    }
}

#[test]
fn nothing_at_the_end_of_a_file_is_its_end() {
    let memory = ram();
    let bytes = pattern(100_000, 4);
    make_file(&*memory, b"file", &bytes);
    let (layer, _) = Layer::new(memory, TellsNoEnd);
    let server = serve(vec![export("/", layer)]);
    let mount = Mount::new(&server, "readahead=0&acregmin=60");
    let id = mount.lookup("file").unwrap();
    assert_eq!(mount.attributes(&id).size, 100_000);
    Mount::new(&server, "").truncate(&id, 30_000);
    assert!(mount.read_by(&id, 50_000).unwrap() == bytes[..30_000]);
}
