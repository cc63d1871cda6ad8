//! A file system whose root has a million entries that are made up as they are asked for.

use std::sync::atomic::{AtomicUsize, Ordering};

use pagewell_fs::{
    Access, Attributes, Call, DirectoryEntry, DirectoryPage, Entry, Error, FileId, FileSystem,
    FileType, Limits, ReadReply, Result, Statistics, Timestamp,
};

/// The file system. Entry `n` has the number `n`, from 1.
pub(crate) struct Million {
    visited_max: AtomicUsize,
}

/// Cookies look like those of ext4: large.
const COOKIE_STEP: u64 = 1 << 40;

impl Million {
    pub(crate) const ENTRIES: u64 = 1_000_000;

    pub(crate) fn new() -> Self {
        Self {
            visited_max: AtomicUsize::new(0),
        }
    }

    pub(crate) fn name(number: u64) -> Vec<u8> {
        let number = number.min(Self::ENTRIES);
        format!("entry-{number:07}").into_bytes()
    }

    /// The most entries given out for one call.
    pub(crate) fn visited_max(&self) -> usize {
        self.visited_max.load(Ordering::Relaxed)
    }

    fn attributes_of(number: u64) -> Attributes {
        let time = Timestamp {
            seconds: 1,
            nanoseconds: 0,
        };
        Attributes {
            file_type: if number == 0 {
                FileType::Directory
            } else {
                FileType::Regular
            },
            mode: 0o755,
            link_count: 1,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            device: (0, 0),
            filesystem_id: 1,
            file_id: number,
            accessed: time,
            modified: time,
            changed: time,
            may_be_kept: true,
        }
    }

    fn entry_of(number: u64) -> Entry {
        Entry {
            id: FileId::new(&number.to_be_bytes()).unwrap(),
            attributes: Self::attributes_of(number),
        }
    }

    fn number_of(id: &FileId) -> Result<u64> {
        let bytes = id.as_bytes().try_into().map_err(|_| Error::BadId)?;
        Ok(u64::from_be_bytes(bytes))
    }
}

impl FileSystem for Million {
    fn describe(&self) -> String {
        "a million entries".to_owned()
    }

    fn root(&self) -> FileId {
        Self::entry_of(0).id
    }

    fn limits(&self) -> Limits {
        Limits::default()
    }

    fn lookup(&self, _: &Call<'_>, _: &FileId, name: &[u8]) -> Result<Entry> {
        let digits = name.strip_prefix(b"entry-").ok_or(Error::NotFound)?;
        let digits = std::str::from_utf8(digits).map_err(|_| Error::NotFound)?;
        let number: u64 = digits.parse().map_err(|_| Error::NotFound)?;
        Ok(Self::entry_of(number))
    }

    fn attributes(&self, _: &Call<'_>, id: &FileId) -> Result<Attributes> {
        Ok(Self::attributes_of(Self::number_of(id)?))
    }

    fn access(&self, _: &Call<'_>, id: &FileId, wanted: Access) -> Result<(Access, Attributes)> {
        Ok((wanted, Self::attributes_of(Self::number_of(id)?)))
    }

    fn read_directory(
        &self,
        _: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        let mut visited = 0;
        let mut end = true;
        for number in cookie / COOKIE_STEP + 1..=Self::ENTRIES {
            visited += 1;
            let taken = visit(&DirectoryEntry {
                name: &Self::name(number),
                file_id: number,
                cookie: number * COOKIE_STEP,
                entry: with_attributes.then(|| Self::entry_of(number)),
            });
            if !taken {
                end = false;
                break;
            }
        }
        self.visited_max.fetch_max(visited, Ordering::Relaxed);
        Ok(DirectoryPage {
            attributes: Self::attributes_of(Self::number_of(directory)?),
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

    fn read(&self, _: &Call<'_>, _: &FileId, _: u64, _: u32) -> Result<ReadReply> {
        Err(Error::IsDirectory)
    }
}
