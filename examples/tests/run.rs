//! Each example as a program, with a client.
#![allow(clippy::unwrap_used, reason = "a test fails so")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use pagewell_cache::{Cache, CacheOptions};
use pagewell_fs::{Call, Credentials, Error, FileSystem};
use pagewell_source_nfs::{NfsFileSystem, Url};

/// A running example; it ends with its standard input.
struct Example {
    process: Child,
    /// What it says when it is ready, behind its first word.
    place: String,
}

impl Example {
    fn start(program: &str, arguments: &[&Path]) -> Self {
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let (_, place) = line.trim_end().split_once(' ').unwrap();
        Self {
            process,
            place: place.to_owned(),
        }
    }

    fn mounted(&self, export: &str) -> NfsFileSystem {
        let (_, port) = self.place.rsplit_once(':').unwrap();
        let url = format!("nfs://127.0.0.1:{port}{export}?mountport={port}&noresvport");
        let cache = Cache::new(CacheOptions::new(pagewell_cache::BYTES_MIN)).unwrap();
        NfsFileSystem::mount(&Url::parse(&url).unwrap(), &cache).unwrap()
    }

    fn end(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }
}

fn read(source: &NfsFileSystem, name: &[u8]) -> Result<Vec<u8>, Error> {
    let credentials = Credentials::root();
    let call = Call::new(&credentials, true);
    let entry = source.lookup(&call, &source.root(), name)?;
    source.open(&call, &entry.id)?;
    let reply = source.read(&call, &entry.id, 0, 1 << 20)?;
    let mut bytes = vec![0; reply.payload.len()];
    reply.payload.copy_to(&mut bytes, true)?;
    source.close(&call, &entry.id)?;
    Ok(bytes)
}

fn names(source: &NfsFileSystem) -> Vec<Vec<u8>> {
    let credentials = Credentials::root();
    let call = Call::new(&credentials, true);
    let mut names = Vec::new();
    let mut visit = |entry: &pagewell_fs::DirectoryEntry<'_>| {
        names.push(entry.name.to_vec());
        true
    };
    let root = source.root();
    let page = source.read_directory(&call, &root, 0, true, &mut visit);
    assert!(page.unwrap().end);
    names.sort();
    names
}

#[test]
fn the_smallest_source_is_served() {
    let example = Example::start(env!("CARGO_BIN_EXE_smallest"), &[]);
    let source = example.mounted("/");
    assert_eq!(names(&source), [&b"."[..], b"..", b"greeting"]);
    assert!(
        read(&source, b"greeting")
            .unwrap()
            .starts_with(b"Hello from")
    );
    assert_eq!(read(&source, b"other"), Err(Error::NotFound));
    drop(source);
    example.end();
}

#[test]
fn the_smallest_source_is_mounted() {
    if fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .is_err()
    {
        return pagewell_skip::skip("no /dev/fuse");
    }
    let place = tempfile::tempdir().unwrap();
    let example = Example::start(env!("CARGO_BIN_EXE_smallest"), &[place.path()]);
    let text = fs::read_to_string(place.path().join("greeting")).unwrap();
    assert!(text.starts_with("Hello from"), "{text}");
    example.end();
    assert!(!place.path().join("greeting").exists());
}

#[test]
fn the_embedded_server_has_both_exports() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "bytes").unwrap();
    let example = Example::start(env!("CARGO_BIN_EXE_embedded"), &[folder.path()]);
    assert_eq!(read(&example.mounted("/files"), b"file").unwrap(), b"bytes");
    assert_eq!(names(&example.mounted("/scratch")), [&b"."[..], b".."]);
    example.end();
}

#[test]
fn the_layer_hides_what_begins_with_a_dot() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["shown", ".hidden"] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    let example = Example::start(env!("CARGO_BIN_EXE_layer"), &[folder.path()]);
    let source = example.mounted("/");
    assert_eq!(names(&source), [&b"."[..], b"..", b"shown"]);
    assert_eq!(read(&source, b"shown").unwrap(), b"shown");
    assert_eq!(read(&source, b".hidden"), Err(Error::NotFound));
    drop(source);
    example.end();
}
