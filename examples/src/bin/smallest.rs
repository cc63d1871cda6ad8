//! The smallest source: a directory with one file, served over NFS, or mounted through FUSE on the
//! directory that is named. It ends with its standard input.
//!
//!     cargo run -p pagewell-examples --bin smallest [DIRECTORY]
//!
//! A source implements what it can do. This one is only read, and needs no thread, no cache and no
//! state; what the trait asks for beyond it has an answer there.

use std::error::Error as Failure;
use std::path::Path;
use std::sync::Arc;

use pagewell_fs::{
    Access, Attributes, Call, Coherence, DirectoryEntry, DirectoryPage, Entry, Error, FileId,
    FileSystem, FileType, Limits, Payload, ReadReply, Result, Statistics, Timestamp, access, name,
};
use pagewell_nfsd::{Config, Export, Server};

const FILE_NAME: &[u8] = b"greeting";
const FILE_BYTES: &[u8] = b"Hello from a source of a hundred lines.\n";

/// An identifier is what names an object to clients, also after a restart. A file number would do,
/// or a path; here it is one byte.
const ROOT: [u8; 1] = [1];
const FILE: [u8; 1] = [2];

struct Greeting;

impl Greeting {
    fn entry(&self, object: [u8; 1]) -> Entry {
        let is_root = object == ROOT;
        let size = if is_root { 0 } else { FILE_BYTES.len() as u64 };
        Entry {
            id: FileId::of(&object),
            attributes: Attributes {
                file_type: if is_root {
                    FileType::Directory
                } else {
                    FileType::Regular
                },
                mode: if is_root { 0o555 } else { 0o444 },
                link_count: if is_root { 2 } else { 1 },
                uid: 0,
                gid: 0,
                size,
                used: size,
                device: (0, 0),
                filesystem_id: 1,
                file_id: u64::from(object[0]),
                accessed: Timestamp::default(),
                modified: Timestamp::default(),
                changed: Timestamp::default(),
                may_be_kept: true,
            },
        }
    }

    /// Clients send identifiers, so they can be anything.
    fn object(&self, id: &FileId) -> Result<[u8; 1]> {
        [ROOT, FILE]
            .into_iter()
            .find(|known| id.as_bytes() == known)
            .ok_or(Error::Stale)
    }

    fn directory(&self, id: &FileId) -> Result<Attributes> {
        match self.object(id)? {
            ROOT => Ok(self.entry(ROOT).attributes),
            _ => Err(Error::NotDirectory),
        }
    }
}

impl FileSystem for Greeting {
    fn describe(&self) -> String {
        "a greeting".to_owned()
    }

    fn root(&self) -> FileId {
        FileId::of(&ROOT)
    }

    fn limits(&self) -> Limits {
        Limits {
            file_bytes_max: FILE_BYTES.len() as u64,
            // For how long clients in the kernel may keep names and attributes.
            coherence: Coherence::UNCHANGED,
            ..Limits::default()
        }
    }

    fn lookup(&self, call: &Call<'_>, directory: &FileId, wanted: &[u8]) -> Result<Entry> {
        name::check(wanted)?;
        let attributes = self.directory(directory)?;
        access::check(call.credentials, &attributes, Access::LOOKUP)?;
        match wanted {
            b"." | b".." => Ok(self.entry(ROOT)),
            FILE_NAME => Ok(self.entry(FILE)),
            _ => Err(Error::NotFound),
        }
    }

    fn attributes(&self, _call: &Call<'_>, id: &FileId) -> Result<Attributes> {
        Ok(self.entry(self.object(id)?).attributes)
    }

    fn access(&self, call: &Call<'_>, id: &FileId, wanted: Access) -> Result<(Access, Attributes)> {
        let attributes = self.attributes(call, id)?;
        Ok((
            access::granted(call.credentials, &attributes, wanted),
            attributes,
        ))
    }

    fn read_link(&self, _call: &Call<'_>, id: &FileId) -> Result<(Vec<u8>, Attributes)> {
        self.object(id)?;
        Err(Error::Invalid)
    }

    fn read(&self, call: &Call<'_>, id: &FileId, offset: u64, count: u32) -> Result<ReadReply> {
        let attributes = self.attributes(call, id)?;
        attributes.file_type.expect_regular()?;
        access::check_read(call.credentials, &attributes)?;
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(FILE_BYTES.len());
        let end = start.saturating_add(count as usize).min(FILE_BYTES.len());
        Ok(ReadReply {
            payload: Payload::Bytes(FILE_BYTES[start..end].to_vec()),
            end_of_file: end == FILE_BYTES.len(),
            attributes,
        })
    }

    fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        _with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        let attributes = self.directory(directory)?;
        access::check(call.credentials, &attributes, Access::READ)?;
        let all: [(&[u8], [u8; 1]); 3] = [(b".", ROOT), (b"..", ROOT), (FILE_NAME, FILE)];
        // A cookie is the number of its entry, and names what comes after it.
        let rest = (1..).zip(all).filter(|(number, _)| *number > cookie);
        let mut end = true;
        for (number, (name, object)) in rest {
            let entry = self.entry(object);
            end = visit(&DirectoryEntry {
                name,
                file_id: entry.attributes.file_id,
                cookie: number,
                entry: Some(entry),
            });
            if !end {
                break;
            }
        }
        Ok(DirectoryPage {
            attributes,
            end,
            unusable: 0,
        })
    }

    fn statistics(&self, _call: &Call<'_>) -> Result<Statistics> {
        Ok(Statistics::default())
    }
}

fn main() -> std::result::Result<(), Box<dyn Failure>> {
    let source: Arc<dyn FileSystem> = Arc::new(Greeting);
    if let Some(directory) = std::env::args_os().nth(1) {
        let options = pagewell_fuse::Options::new("greeting");
        let mounted = pagewell_fuse::mount(source, Path::new(&directory), &options)?;
        println!("mounted {}", mounted.place().display());
        pagewell_examples::wait_for_end_of_input();
        return Ok(mounted.unmount(false)?);
    }
    // The key signs handles. A server that goes on after a restart keeps it.
    let config = Config::new(vec![Export::new("/", source)], [7; 16]);
    let server = Server::start(pagewell_examples::on_any_port(config))?;
    println!("serving {}", server.address());
    pagewell_examples::wait_for_end_of_input();
    Ok(server.stop()?)
}
