//! One file as a program uses it: opened, read or written in blocks, closed.

use pagewell_fs::{
    Call, CreateMode, Credentials, FileId, FileSystem, Opened, SetAttributes, Stability,
};
use pagewell_source_nfs::Url;

use super::old_client::{self, OldFile};
use super::recording::Recording;
use super::workload::{fill, is_right};
use crate::experiment::{Error, Result};

pub(super) struct OpenedFile<'a> {
    filesystem: &'a dyn FileSystem,
    credentials: &'a Credentials,
    id: FileId,
    /// Writes go through these blocks.
    old: Option<OldFile>,
    _opened: Opened,
}

/// The user of the calls.
pub(super) fn credentials() -> Credentials {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    Credentials::new(uid.as_raw(), gid.as_raw(), &[])
}

/// An error of a file system, with what was done.
fn failed(what: &str, error: &pagewell_fs::Error) -> Error {
    Error::Wrong(format!("{what}: {error}"))
}

fn call(credentials: &Credentials) -> Call<'_> {
    Call::new(credentials, true)
}

/// Removes a file of the root directory, if it exists.
pub(super) fn remove(filesystem: &dyn FileSystem, credentials: &Credentials, name: &str) {
    let root = filesystem.root();
    // A remaining file disturbs no run: each has new names.
    let _ = filesystem.remove(&call(credentials), &root, name.as_bytes());
}

impl<'a> OpenedFile<'a> {
    /// Opens a file of the root directory.
    pub(super) fn open(
        filesystem: &'a dyn FileSystem,
        credentials: &'a Credentials,
        name: &str,
    ) -> Result<Self> {
        let call = call(credentials);
        let entry = filesystem
            .lookup(&call, &filesystem.root(), name.as_bytes())
            .map_err(|error| failed(name, &error))?;
        Self::opened(filesystem, credentials, entry.id)
    }

    /// Makes a file in the root directory and opens it.
    pub(super) fn create(
        filesystem: &'a dyn FileSystem,
        credentials: &'a Credentials,
        name: &str,
    ) -> Result<Self> {
        let attributes = SetAttributes {
            mode: Some(0o644),
            ..SetAttributes::default()
        };
        let mode = CreateMode::Guarded(attributes);
        let root = filesystem.root();
        let created = filesystem
            .create(&call(credentials), &root, name.as_bytes(), &mode)
            .map_err(|error| failed(&format!("making {name}"), &error))?;
        Self::opened(filesystem, credentials, created.entry.id)
    }

    fn opened(
        filesystem: &'a dyn FileSystem,
        credentials: &'a Credentials,
        id: FileId,
    ) -> Result<Self> {
        let opened = filesystem
            .open(&call(credentials), &id)
            .map_err(|error| failed("open", &error))?;
        Ok(Self {
            filesystem,
            credentials,
            id,
            old: None,
            _opened: opened,
        })
    }

    /// Lets writes go as those of the report's client.
    pub(super) fn through_blocks(self, url: &Url) -> Result<Self> {
        let old = Some(old_client::open(url, self.id)?);
        Ok(Self { old, ..self })
    }

    /// Adds the costs of such writes to a recording.
    pub(super) fn record(&self, recording: &mut Recording) {
        let Some(old) = &self.old else {
            return;
        };
        recording.calls.add(&old.store().calls());
        let joined = old.joined();
        recording.data = (joined, recording.latencies.len() as u64 - joined);
    }

    /// Reads a whole block, as pread(2) does, and checks it.
    pub(super) fn read(&self, block: &mut [u8], offset: u64, seed: u64) -> Result<()> {
        let mut done = 0;
        while done < block.len() {
            let (at, left) = (offset + done as u64, block.len() - done);
            let count = u32::try_from(left).unwrap_or(u32::MAX);
            let copied = self
                .filesystem
                .read(&call(self.credentials), &self.id, at, count)
                .and_then(|reply| reply.payload.copy_to(&mut block[done..], true))
                .map_err(|error| failed("read", &error))?;
            if copied == 0 {
                return Err(Error::Wrong(format!("the file ends at {at}")));
            }
            done += copied;
        }
        if is_right(block, offset, seed) {
            Ok(())
        } else {
            Err(Error::Wrong(format!(
                "the block at {offset} is not what was written"
            )))
        }
    }

    /// Writes a whole block, as pwrite(2) does.
    pub(super) fn write(&self, block: &mut [u8], offset: u64, seed: u64) -> Result<()> {
        fill(block, offset, seed);
        if let Some(old) = &self.old {
            return old.write(offset, block);
        }
        let mut done = 0;
        while done < block.len() {
            let (at, data) = (offset + done as u64, &block[done..]);
            let written = self
                .filesystem
                .write(
                    &call(self.credentials),
                    &self.id,
                    at,
                    data,
                    Stability::Unstable,
                )
                .map_err(|error| failed("write", &error))?;
            if written.count == 0 {
                return Err(Error::Wrong(format!("nothing was written at {at}")));
            }
            done += written.count as usize;
        }
        Ok(())
    }

    /// Closes the file, with all writes at the server.
    pub(super) fn close(&self) -> Result<()> {
        if let Some(old) = &self.old {
            old.sync()?;
        }
        self.filesystem
            .close(&call(self.credentials), &self.id)
            .map_err(|error| failed("close", &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_source_ram::RamFileSystem;

    #[test]
    fn what_was_written_is_read_and_else_it_is_told() {
        let ram = RamFileSystem::new(1 << 20).unwrap();
        let user = credentials();
        let mut block = vec![0; 4096];
        let file = OpenedFile::create(&ram, &user, "f").unwrap();
        file.write(&mut block, 4096, 5).unwrap();
        file.close().unwrap();
        let file = OpenedFile::open(&ram, &user, "f").unwrap();
        file.read(&mut block, 4096, 5).unwrap();
        let wrong = file.read(&mut block, 0, 5).unwrap_err().to_string();
        assert!(wrong.contains("the block at 0"), "{wrong}");
        let end = file.read(&mut block, 8192, 5).unwrap_err().to_string();
        assert!(end.contains("ends at 8192"), "{end}");
        remove(&ram, &user, "f");
        assert!(OpenedFile::open(&ram, &user, "f").is_err());
    }
}
