//! Data: how many calls it costs, and who sees what when.

use pagewell_fs::{Error, FileSystem, Finish, SetAttributes, SetTime, Timestamp};
use pagewell_sunrpc::nfs3::Procedure;

use super::{Mount, pattern, server};
use crate::layer::make_file;

#[test]
fn a_file_that_is_laid_out_by_appending_is_never_read() {
    let (server, _) = server();
    let mount = Mount::new(&server, "");
    let id = mount.create("new");
    let bytes = pattern(1 << 20, 1);
    for (index, piece) in bytes.chunks(4096).enumerate() {
        mount.write(&id, index as u64 * 4096, piece).unwrap();
    }
    mount.close(&id).unwrap();
    assert_eq!(mount.calls(Procedure::Read), 0);
    // The one for age or for the close; gathered, whatever came first.
    let writes = mount.calls(Procedure::Write);
    assert!((1..=4).contains(&writes), "{writes} WRITEs");
    assert!(mount.read(&id).unwrap() == bytes);
    assert_eq!(mount.calls(Procedure::Read), 0);
    assert!(Mount::new(&server, "").read(&id).unwrap() == bytes);
}

#[test]
fn adjacent_ranges_leave_in_one_write() {
    let (server, _) = server();
    let mount = Mount::new(&server, "");
    let id = mount.create("new");
    let bytes = pattern(64 << 10, 2);
    for index in [3, 1, 0, 2, 7, 5, 4, 6, 15, 14, 13, 12, 11, 10, 9, 8] {
        mount
            .write(&id, index * 4096, &bytes[index as usize * 4096..][..4096])
            .unwrap();
    }
    mount.commit(&id).unwrap();
    assert_eq!(mount.calls(Procedure::Write), 1);
    assert_eq!(mount.calls(Procedure::Read), 0);
    assert!(Mount::new(&server, "").read(&id).unwrap() == bytes);
}

#[test]
fn a_file_costs_as_many_reads_as_it_has_blocks() {
    let (server, ram) = server();
    let bytes = pattern((2 << 20) + 100, 3);
    make_file(&*ram, b"old", &bytes);
    let mount = Mount::new(&server, "rsize=64k");
    assert_eq!(mount.filesystem.transfer_bytes().0, 64 << 10);
    let id = mount.lookup("old").unwrap();
    assert!(mount.read_by(&id, 64 << 10).unwrap() == bytes);
    assert_eq!(mount.calls(Procedure::Read), 33);
    assert!(mount.read_by(&id, 5000).unwrap() == bytes);
    assert_eq!(mount.calls(Procedure::Read), 33);
}

#[test]
fn what_was_closed_is_seen_by_who_opens_it_later() {
    let (server, _) = server();
    let (one, other) = (Mount::new(&server, ""), Mount::new(&server, ""));
    let id = one.create("shared");
    for round in 0..10 {
        let (writer, reader) = if round % 2 == 0 {
            (&one, &other)
        } else {
            (&other, &one)
        };
        // Sometimes the same length, sometimes another.
        let bytes = pattern(100_000 + (round as usize / 3) * 1000, round);
        let opened = writer.open(&id);
        writer.write(&id, 0, &bytes).unwrap();
        writer.close(&id).unwrap();
        drop(opened);
        let opened = reader.open(&id);
        assert!(!opened.keep_cache, "round {round}");
        assert_eq!(opened.attributes.size, bytes.len() as u64);
        assert!(reader.read(&id).unwrap() == bytes, "round {round}");
        drop(opened);
        let reads = reader.calls(Procedure::Read);
        assert!(reader.open(&id).keep_cache, "round {round}");
        assert!(reader.read(&id).unwrap() == bytes);
        assert_eq!(reader.calls(Procedure::Read), reads, "nothing has changed");
    }
}

#[test]
fn two_clients_do_not_overwrite_each_others_bytes() {
    let (server, _) = server();
    let (one, other) = (Mount::new(&server, ""), Mount::new(&server, ""));
    let id = one.create("shared");
    one.write(&id, 0, &[b'.'; 1000]).unwrap();
    one.close(&id).unwrap();
    assert_eq!(other.read(&id).unwrap(), [b'.'; 1000]);
    one.write(&id, 100, b"one").unwrap();
    other.write(&id, 103, b"other").unwrap();
    one.close(&id).unwrap();
    other.close(&id).unwrap();
    let seen = Mount::new(&server, "").read(&id).unwrap();
    assert_eq!(&seen[98..110], b"..oneother..");
    for mount in [&one, &other] {
        drop(mount.open(&id));
        assert_eq!(mount.read(&id).unwrap(), seen);
    }
}

#[test]
fn unwritten_bytes_outlive_a_change_of_somebody_else() {
    let (server, _) = server();
    let (one, other) = (Mount::new(&server, ""), Mount::new(&server, ""));
    let id = one.create("shared");
    one.write(&id, 0, &[b'.'; 10]).unwrap();
    one.close(&id).unwrap();
    one.write(&id, 2, b"mine").unwrap();
    other.write(&id, 8, b"theirs").unwrap();
    other.close(&id).unwrap();
    assert!(!one.open(&id).keep_cache);
    assert_eq!(one.read(&id).unwrap(), b"..mine..theirs");
}

#[test]
fn a_file_that_another_client_cuts_off_gives_short_data() {
    let (server, _) = server();
    let (one, other) = (Mount::new(&server, "rsize=64k"), Mount::new(&server, ""));
    let id = one.create("shared");
    let bytes = pattern(1 << 20, 4);
    one.write(&id, 0, &bytes).unwrap();
    one.close(&id).unwrap();
    let mount = Mount::new(&server, "rsize=64k&readahead=0&acregmin=0&acregmax=0");
    let first = mount.filesystem.read(&mount.call(), &id, 0, 4096).unwrap();
    assert_eq!(first.payload.len(), 4096);
    other.truncate(&id, 100_000);
    assert!(mount.read(&id).unwrap() == bytes[..100_000]);
    // The cached tail of one that has it all.
    drop(one.open(&id));
    assert!(one.read(&id).unwrap() == bytes[..100_000]);
    other.truncate(&id, 200_000);
    drop(one.open(&id));
    let seen = one.read(&id).unwrap();
    assert!(seen[..100_000] == bytes[..100_000] && seen[100_000..] == [0; 100_000]);
}

#[test]
fn times_and_length_are_those_that_stay() {
    let (server, _) = server();
    let mount = Mount::new(&server, "");
    let id = mount.create("file");
    mount.write(&id, 10, b"abc").unwrap();
    let attributes = mount.attributes(&id);
    assert_eq!(attributes.size, 13);
    mount.close(&id).unwrap();
    let other = Mount::new(&server, "");
    assert_eq!(other.attributes(&id).modified, attributes.modified);
    // A time that is set is not moved by what was written before it.
    mount.write(&id, 20, b"def").unwrap();
    let time = Timestamp {
        seconds: 1_000_000_000,
        nanoseconds: 5,
    };
    let request = SetAttributes {
        modified: Some(SetTime::To(time)),
        ..Default::default()
    };
    mount
        .filesystem
        .set_attributes(&mount.call(), &id, &request, None)
        .unwrap();
    mount.close(&id).unwrap();
    let other = Mount::new(&server, "");
    assert_eq!(other.attributes(&id).modified, time);
    assert_eq!(
        other.read(&id).unwrap(),
        b"\0\0\0\0\0\0\0\0\0\0abc\0\0\0\0\0\0\0def"
    );
}

#[test]
fn a_synchronous_mount_has_nothing_unwritten() {
    let (server, _) = server();
    let (mount, other) = (Mount::new(&server, "sync"), Mount::new(&server, ""));
    let id = mount.create("file");
    mount.write(&id, 0, b"now").unwrap();
    assert_eq!(other.read(&id).unwrap(), b"now");
    assert_eq!(mount.calls(Procedure::Commit), 0);
}

#[test]
fn a_read_only_mount_changes_nothing() {
    let (server, ram) = server();
    make_file(&*ram, b"old", b"bytes");
    let mount = Mount::new(&server, "ro");
    let id = mount.lookup("old").unwrap();
    assert_eq!(mount.read(&id).unwrap(), b"bytes");
    assert_eq!(mount.write(&id, 0, b"x"), Err(Error::ReadOnly));
    let request = SetAttributes {
        size: Some(0),
        ..Default::default()
    };
    let set = mount
        .filesystem
        .set_attributes(&mount.call(), &id, &request, None);
    assert_eq!(set.err(), Some(Error::ReadOnly));
    assert_eq!(mount.commit(&id), Err(Error::ReadOnly));
    assert!(mount.filesystem.limits().read_only);
}

#[test]
fn small_caches_hold_many_files() {
    let (server, _) = server();
    let options = pagewell_cache::CacheOptions::new(4 << 20);
    let mount = Mount::with_cache(&server, "", options);
    let bytes = pattern(300_000, 7);
    let ids: Vec<_> = (0..40)
        .map(|number| mount.create(&format!("f{number}")))
        .collect();
    for (number, id) in ids.iter().enumerate() {
        mount.write(id, 0, &bytes[number..]).unwrap();
    }
    for (number, id) in ids.iter().enumerate() {
        assert!(mount.read(id).unwrap() == bytes[number..], "file {number}");
    }
    mount.filesystem.finish(Finish::Sync).unwrap();
    let other = Mount::new(&server, "");
    for (number, id) in ids.iter().enumerate() {
        assert!(other.read(id).unwrap() == bytes[number..], "file {number}");
    }
}
