//! The commands beside a server that means no good.

use std::sync::Arc;

use pagewell::fs::{
    Access, Attributes, Call, DirectoryEntry, DirectoryPage, Entry, Error, FileId, FileSystem,
    FileType, Limits, Payload, ReadReply, Result, Statistics, Timestamp,
};
use pagewell::nfsd::{Config, Export, Server};

use crate::support::{run, run_in};

/// What the root lists: one file, and what can be no name.
const NAMES: [&[u8]; 6] = [b".", b"..", b"", b"../../escaped", b"a/b", b"file"];

struct Hostile;

impl Hostile {
    fn entry(number: u64) -> Entry {
        let time = Timestamp::default();
        let attributes = Attributes {
            file_type: if number == 0 {
                FileType::Directory
            } else {
                FileType::Regular
            },
            mode: 0o777,
            link_count: 1,
            uid: 0,
            gid: 0,
            size: 4,
            used: 4,
            device: (0, 0),
            filesystem_id: 1,
            file_id: number + 1,
            accessed: time,
            modified: time,
            changed: time,
            may_be_kept: true,
        };
        Entry {
            id: FileId::new(&number.to_be_bytes()).unwrap(),
            attributes,
        }
    }

    fn of(id: &FileId) -> Result<Entry> {
        let bytes = id.as_bytes().try_into().map_err(|_| Error::BadId)?;
        Ok(Self::entry(u64::from_be_bytes(bytes)))
    }
}

impl FileSystem for Hostile {
    fn describe(&self) -> String {
        "hostile".to_owned()
    }

    fn root(&self) -> FileId {
        Self::entry(0).id
    }

    fn limits(&self) -> Limits {
        Limits {
            read_only: false,
            ..Limits::default()
        }
    }

    fn lookup(&self, _: &Call<'_>, _: &FileId, name: &[u8]) -> Result<Entry> {
        match name {
            b"." | b".." => Ok(Self::entry(0)),
            b"file" => Ok(Self::entry(5)),
            _ => Err(Error::NotFound),
        }
    }

    fn attributes(&self, _: &Call<'_>, id: &FileId) -> Result<Attributes> {
        Ok(Self::of(id)?.attributes)
    }

    fn access(&self, _: &Call<'_>, id: &FileId, wanted: Access) -> Result<(Access, Attributes)> {
        Ok((wanted, Self::of(id)?.attributes))
    }

    fn read(&self, _: &Call<'_>, id: &FileId, offset: u64, _: u32) -> Result<ReadReply> {
        let bytes = b"good".get(offset as usize..).unwrap_or_default();
        Ok(ReadReply {
            payload: Payload::Bytes(bytes.to_vec()),
            end_of_file: true,
            attributes: Self::of(id)?.attributes,
        })
    }

    fn read_directory(
        &self,
        _: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        _: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        let mut end = true;
        for (number, name) in (0..).zip(NAMES).skip(cookie as usize) {
            let taken = visit(&DirectoryEntry {
                name,
                file_id: number + 1,
                cookie: number + 1,
                entry: Some(Self::entry(number)),
            });
            if !taken {
                end = false;
                break;
            }
        }
        Ok(DirectoryPage {
            attributes: Self::of(directory)?.attributes,
            end,
            unusable: 0,
        })
    }

    fn statistics(&self, _: &Call<'_>) -> Result<Statistics> {
        Ok(Statistics::default())
    }

    fn read_link(&self, _: &Call<'_>, _: &FileId) -> Result<(Vec<u8>, Attributes)> {
        Err(Error::Invalid)
    }
}

#[test]
fn names_that_cannot_be_used_are_told_and_nothing_is_made_of_them() {
    let mut config = Config::new(vec![Export::new("/", Arc::new(Hostile))], [7; 16]);
    config.listen = "127.0.0.1:0".parse().unwrap();
    let server = Server::start(config).unwrap();
    let url = format!("nfs://{}/", server.address());
    let base = tempfile::tempdir().unwrap();
    for (arguments, out) in [
        (vec!["ls", &url], "file\n"),
        (vec!["ls", "-a", &url], ".\n..\nfile\n"),
        (vec!["cat", "-r", &url], "good"),
        (vec!["cp", "-r", &url, "copy"], ""),
        (vec!["cp", "-a", &url, "all"], ""),
    ] {
        let run = run_in(base.path(), &arguments);
        assert_eq!(run.code, Some(1), "{arguments:?}: {}", run.err);
        assert_eq!(String::from_utf8_lossy(&run.out), out, "{arguments:?}");
        let told = "3 names that cannot be used are left out";
        assert!(run.err.contains(told), "{arguments:?}: {}", run.err);
    }
    for copy in ["copy", "all"] {
        let copied = std::fs::read_dir(base.path().join(copy)).unwrap();
        assert_eq!(copied.count(), 1);
    }
    assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 2);
    let sums = run(&["sum", "-r", &url]);
    assert_eq!((sums.code, sums.out.len()), (Some(1), 64 + 2 + 5));
    server.stop().unwrap();
}
