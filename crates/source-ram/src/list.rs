//! Finding names and listing them.

use pagewell_fs::access::{self, EXECUTE, READ};
use pagewell_fs::{
    Attributes, Call, Credentials, DirectoryEntry, DirectoryPage, Entry, Error, FileId, Result,
    name,
};

use super::directory::{COOKIE_PARENT, COOKIE_SELF, Named};
use super::permission::check_mode;
use super::tree::Tree;

/// Entries copied out of a directory under its lock at once: few enough that no thread waits long,
/// many enough that a page of a listing needs the lock once or twice.
const CHUNK_ENTRIES: usize = 128;

impl Tree {
    pub(super) fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        name::check(name)?;
        let inode = self.inode(directory)?;
        loop {
            let number = {
                let state = inode.read()?;
                let directory = state.directory()?;
                check_mode(call.credentials, &state.metadata, EXECUTE)?;
                match name {
                    b"." => return Ok(self.entry_of(state.attributes())),
                    b".." => state.living_directory()?.parent,
                    _ => directory.find(name).ok_or(Error::NotFound)?,
                }
            };
            // Another thread may have replaced or removed what the name meant a moment ago: then
            // the name is looked up again. Each round follows a change that was completed.
            match self.entry_numbered(number) {
                Err(Error::Stale) => {}
                found => return found,
            }
        }
    }

    fn entry_numbered(&self, number: u64) -> Result<Entry> {
        let inode = self.numbered(number)?;
        let state = inode.read()?;
        Ok(self.entry_of(state.attributes()))
    }

    pub(super) fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        mut cookie: u64,
        with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        loop {
            let (chunk, attributes) = self.chunk(call.credentials, directory, cookie)?;
            let page = |end| DirectoryPage {
                attributes,
                end,
                unusable: 0,
            };
            // Whoever may not look the names up does not get what they mean.
            let searchable = access::allows(call.credentials, &attributes, EXECUTE);
            let wanted = with_attributes && searchable;
            for named in &chunk {
                let entry = wanted.then(|| self.entry_numbered(named.number).ok());
                cookie = named.cookie;
                let taken = visit(&DirectoryEntry {
                    name: &named.name,
                    file_id: named.number,
                    cookie,
                    entry: entry.flatten(),
                });
                if !taken {
                    return Ok(page(false));
                }
            }
            if chunk.len() < CHUNK_ENTRIES {
                return Ok(page(true));
            }
        }
    }

    /// The next entries after the cookie, `.` and `..` first, and the directory's attributes.
    fn chunk(
        &self,
        credentials: &Credentials,
        directory: &FileId,
        cookie: u64,
    ) -> Result<(Vec<Named>, Attributes)> {
        let inode = self.inode(directory)?;
        let state = inode.read()?;
        let directory = state.directory()?;
        check_mode(credentials, &state.metadata, READ)?;
        let dots = [
            (COOKIE_SELF, &b"."[..], inode.number),
            (COOKIE_PARENT, b"..", directory.parent),
        ];
        let mut entries: Vec<Named> = dots
            .into_iter()
            .filter(|(at, ..)| *at > cookie)
            .map(|(cookie, name, number)| Named {
                cookie,
                name: name.into(),
                number,
            })
            .collect();
        entries.extend(directory.after(cookie, CHUNK_ENTRIES - entries.len()));
        Ok((entries, state.attributes()))
    }
}
