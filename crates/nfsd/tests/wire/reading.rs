//! The end of a file, and the sizes that FSINFO promises.

use pagewell_sunrpc::nfs3::{
    Procedure, SetAttributes, StableHow, Status, WriteArguments, WriteReply,
};

use crate::fixture::{Fixture, Kind, on_each_kind};
use crate::operations::handle;

/// `eof` is set exactly at the end of the file (ESXi hangs otherwise), a count of 0 is
/// legal, and past the end there are no bytes and `eof`.
#[test]
fn the_end_of_a_file_is_exact() {
    let table: [(u64, u32, &[u8], bool); 15] = [
        (0, 0, b"", false),
        (0, 2, b"ab", false),
        (0, 3, b"abc", true),
        (0, 4, b"abc", true),
        (0, u32::MAX, b"abc", true),
        (1, 0, b"", false),
        (1, 1, b"b", false),
        (2, 1, b"c", true),
        (2, 2, b"c", true),
        (3, 0, b"", true),
        (3, 1, b"", true),
        (4, 0, b"", true),
        (1 << 63, 1, b"", true),
        (u64::MAX, 1, b"", true),
        (u64::MAX - 1, u32::MAX, b"", true),
    ];
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"three", b"abc");
        for (offset, count, bytes, end) in table {
            let read = client.read(&file, offset, count).unwrap();
            let found = (&read.bytes[..], read.end);
            assert_eq!(found, (bytes, end), "{offset} {count}");
            assert_eq!(read.attributes.size, 3);
        }
        let empty = client.make_file(&root, b"empty", b"");
        for count in [0, 1, u32::MAX] {
            let read = client.read(&empty, 0, count).unwrap();
            assert!(read.bytes.is_empty() && read.end);
        }
    });
}

/// The same for files of every size around what is copied, spliced and cut.
#[test]
fn large_files_end_exactly_too() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let info = client.fsinfo(&root).unwrap();
        let sizes = [
            4095,
            4096,
            4097,
            32_767,
            32_768,
            32_769,
            100_001,
            (1 << 20) - 1,
            1 << 20,
            (1 << 20) + 1,
        ];
        for size in sizes {
            let content: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
            let file = client.make_file(&root, format!("{size}").as_bytes(), b"");
            for (index, piece) in content.chunks(1 << 20).enumerate() {
                let offset = (index << 20) as u64;
                client
                    .write(&file, offset, piece, StableHow::Unstable)
                    .unwrap();
            }
            let mut found = Vec::new();
            loop {
                let read = client.read(&file, found.len() as u64, u32::MAX).unwrap();
                assert!(read.bytes.len() <= info.read_bytes_max as usize);
                found.extend_from_slice(&read.bytes);
                assert_eq!(read.end, found.len() == size, "{} of {size}", found.len());
                if read.end {
                    break;
                }
                assert!(!read.bytes.is_empty());
            }
            assert!(found == content);
        }
    });
}

/// The same at the end of the longest file that can be.
#[test]
fn the_last_bytes_of_the_longest_file_are_read() {
    let fixture = Fixture::new(Kind::Ram);
    let (mut client, root) = fixture.client();
    let length = client.fsinfo(&root).unwrap().file_bytes_max;
    assert_eq!(length, i64::MAX as u64);
    let file = client.make_file(&root, b"long", b"");
    let set = SetAttributes {
        size: Some(length),
        ..SetAttributes::default()
    };
    client.setattr(&file, set, None).unwrap();
    let written = client.write(&file, length - 5, b"abcd", StableHow::Unstable);
    assert_eq!(written.unwrap().count, 4);
    let table: [(u64, u32, &[u8], bool); 7] = [
        (length - 5, 4, b"abcd", false),
        (length - 5, u32::MAX, b"abcd\0", true),
        (length - 7, 4, b"\0\0ab", false),
        (length - 1, 100, b"\0", true),
        (length - 1, 0, b"", false),
        (length, 1, b"", true),
        (u64::MAX, 1, b"", true),
    ];
    for (offset, count, bytes, end) in table {
        let read = client.read(&file, offset, count).unwrap();
        let found = (&read.bytes[..], read.end);
        assert_eq!(found, (bytes, end), "{offset} {count}");
    }
}

/// A READ or WRITE over the limits of FSINFO is done as far as they go, never answered
/// FBIG, also when its record is over the cap.
#[test]
fn counts_over_the_limits_are_cut() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let info = client.fsinfo(&root).unwrap();
        assert!(info.write_bytes_preferred <= info.write_bytes_max);
        assert!(info.read_bytes_preferred <= info.read_bytes_max);
        let file = client.make_file(&root, b"file", b"");
        for over in [1, 4, 1000, 5000, info.write_bytes_max as usize] {
            let data = vec![over as u8; info.write_bytes_max as usize + over];
            let written = client.write(&file, 0, &data, StableHow::Unstable).unwrap();
            assert_eq!(written.count, info.write_bytes_max, "{over}");
        }
        let size = client.getattr(&file).unwrap().size;
        assert_eq!(size, u64::from(info.write_bytes_max));
        let read = client.read(&file, 0, info.read_bytes_max + 1).unwrap();
        assert!(read.bytes.len() <= info.read_bytes_max as usize);
    });
}

/// A WRITE whose count and data disagree changes no more than both allow.
#[test]
fn count_and_data_of_a_write_must_agree() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let file = client.make_file(&root, b"file", b"");
        for (count, data) in [(3, &b"abcdef"[..]), (6, b"abc"), (u32::MAX, b"abc")] {
            let arguments = WriteArguments {
                file: handle(&file),
                offset: 0,
                count,
                stable: StableHow::FileSync,
                data,
            };
            let answer = client.nfs(Procedure::Write, &arguments);
            match answer.decode::<WriteReply>() {
                Ok(written) => assert!(written.count <= count.min(data.len() as u32)),
                Err(failure) => assert_eq!(failure.status, Status::Invalid),
            }
            assert!(client.getattr(&file).unwrap().size <= 3);
        }
    });
}

/// Sizes are below 2^63 for clients that count with a sign; offsets past the largest
/// file are refused and overflow nowhere.
#[test]
fn sizes_are_below_two_to_the_63() {
    on_each_kind(|fixture| {
        let (mut client, root) = fixture.client();
        let limit = 1u64 << 63;
        let stat = client.fsstat(&root).unwrap();
        let numbers = [
            stat.bytes_total,
            stat.bytes_free,
            stat.bytes_available,
            stat.files_total,
            stat.files_free,
            stat.files_available,
        ];
        assert!(numbers.iter().all(|number| *number < limit), "{stat:?}");
        assert!(stat.bytes_free <= stat.bytes_total && stat.files_free <= stat.files_total);
        assert!(stat.bytes_available <= stat.bytes_free);
        let info = client.fsinfo(&root).unwrap();
        assert!(info.file_bytes_max < limit);
        let conf = client.pathconf(&root).unwrap();
        assert_eq!((conf.name_bytes_max, conf.no_truncation), (255, true));
        let file = client.make_file(&root, b"file", b"");
        let refused = [Status::FileTooLarge, Status::Invalid];
        for offset in [
            info.file_bytes_max,
            limit - 1,
            limit,
            u64::MAX - 3,
            u64::MAX,
        ] {
            let result = client.write(&file, offset, b"data", StableHow::Unstable);
            assert!(refused.contains(&result.unwrap_err()), "{offset}");
            if offset > info.file_bytes_max {
                let set = SetAttributes {
                    size: Some(offset),
                    ..SetAttributes::default()
                };
                let result = client.setattr(&file, set, None);
                assert!(refused.contains(&result.unwrap_err()), "{offset}");
            }
        }
        assert_eq!(client.getattr(&file).unwrap().size, 0);
    });
}
