//! Files that are neither directories nor ISO images: what they are taken for, and how much memory
//! serving little takes.

use std::fs;

use pagewell_sunrpc::nfs3::Status;

use crate::support::{Fixture, Serve, bytes, run_in};
use crate::writing::write_to;

const RESIDENT_BYTES_MAX: u64 = 40 << 20;

#[test]
fn nobody_writes_to_a_file_that_was_meant_otherwise() {
    let fixture = Fixture::new();
    let mut ext4 = vec![0; 65536];
    ext4[1080..1082].copy_from_slice(b"\x53\xef");
    for (name, content, what) in [
        ("notes.txt", b"dear\n".to_vec(), "text"),
        ("a.zip", b"PK\x03\x04rest".to_vec(), "a zip archive"),
        ("root.img", ext4, "an ext2, ext3 or ext4 file system"),
        ("odd", bytes(100, 7), "nothing that is known"),
    ] {
        let path = fixture.path().join(name);
        fs::write(&path, &content).unwrap();
        let plain = path.display().to_string();
        let named = format!("image:{plain}");
        for (arguments, said, written) in [
            (&[&*plain][..], Some("--writable"), Err(Status::ReadOnly)),
            (
                &["--read-only", &plain],
                Some("as one file"),
                Err(Status::ReadOnly),
            ),
            (&["--writable", &plain], Some("as one file"), Ok(())),
            (&[&*named], None, Ok(())),
        ] {
            fs::write(&path, &content).unwrap();
            let arguments = [&["--squash", "none"], arguments].concat();
            let mut serve = Serve::start(&arguments);
            let lines = serve.lines_until("image ").concat();
            let is_told = lines.contains(&format!("it looks like {what})"));
            assert_eq!(is_told, said.is_some(), "{lines}");
            assert!(lines.contains(said.unwrap_or_default()), "{lines}");
            assert_eq!(
                lines.contains("--writable"),
                said == Some("--writable"),
                "{lines}"
            );
            assert_eq!(
                write_to(&serve, name.as_bytes(), b"X"),
                written,
                "{arguments:?}"
            );
            serve.signal("TERM");
            assert_eq!(serve.end().0, Some(0));
            let begins = if written.is_ok() { b'X' } else { content[0] };
            assert_eq!(fs::read(&path).unwrap()[0], begins, "{arguments:?}");
        }
    }
}

#[test]
fn what_is_named_as_a_disc_and_is_none_is_said() {
    let fixture = Fixture::new();
    let page = b"<!DOCTYPE html><p>not found".to_vec();
    let mut archive = vec![b'x'; 40 * 2048];
    archive[257..262].copy_from_slice(b"ustar");
    for (name, content, what) in [
        ("page.iso", page, "it looks like a web page"),
        (
            "a.tar",
            archive,
            "no volume descriptor; it looks like a tar archive",
        ),
    ] {
        fs::write(fixture.path().join(name), content).unwrap();
        let source = format!("iso:{name}");
        for words in [["ls", &*source], ["check", name], ["check", &*source]] {
            let error = run_in(fixture.path(), &words).failed(1);
            assert!(error.contains(what), "{words:?}: {error}");
        }
    }
    // Of what nothing is known, nothing is said.
    fs::write(fixture.path().join("odd"), bytes(80 * 2048, 7)).unwrap();
    let error = run_in(fixture.path(), &["ls", "iso:odd"]).failed(1);
    assert!(!error.contains("looks like"), "{error}");
}

#[test]
fn a_copy_replaces_a_file_and_does_not_write_into_it() {
    let fixture = Fixture::new();
    let disk = fixture.path().join("disk.img");
    fs::write(&disk, bytes(1000, 3)).unwrap();
    fs::write(fixture.path().join("short"), "short").unwrap();
    let run = |arguments: &[&str]| run_in(fixture.path(), arguments);
    run(&["cp", "short", "disk.img"]).done();
    assert_eq!(fs::read(&disk).unwrap(), b"short");
}

/// The cache takes memory as it is used: as much as the image has, not as it might have.
#[test]
fn little_takes_little_memory() {
    let fixture = Fixture::new();
    let iso = fixture.iso().display().to_string();
    fs::write(fixture.path().join("five"), "12345").unwrap();
    let five = format!("image:{}", fixture.path().join("five").display());
    for source in [iso, five] {
        let mut serve = Serve::start(&[&source]);
        let lines = serve.lines_until(" in ").concat();
        assert!(lines.contains("cache: "), "{lines}");
        let status = format!("/proc/{}/status", serve.process_id());
        let status = fs::read_to_string(status).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes: u64 = line
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap();
        assert!(
            kibibytes << 10 < RESIDENT_BYTES_MAX,
            "{source}: {kibibytes} KiB"
        );
        serve.signal("TERM");
        assert_eq!(serve.end().0, Some(0));
    }
}
