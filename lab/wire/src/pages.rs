//! READDIR and READDIRPLUS, one page or all of them.

use pagewell_sunrpc::nfs3::{
    FileAttributes, FileType, Procedure, ReaddirArguments, ReaddirPlusArguments, ReaddirPlusReply,
    ReaddirReply, Status, Verifier,
};

use crate::client::{Answer, Client};
use crate::operations::{FileHandle, handle};

/// One name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub name: Vec<u8>,
    pub file_id: u64,
    pub cookie: u64,
    /// With READDIRPLUS.
    pub object: Option<(FileAttributes, FileHandle)>,
}

/// One reply.
#[derive(Clone, Debug)]
pub struct Page {
    pub names: Vec<Name>,
    pub verifier: Verifier,
    pub end: bool,
    /// Bytes of the result behind the status.
    pub bytes: usize,
}

/// The parts of a READDIR reply.
pub fn page_of(answer: &Answer) -> Result<Page, Status> {
    let ok = answer.ok::<ReaddirReply<'_>>()?;
    let attributes = ok.directory_attributes.expect("the directory's attributes");
    assert_eq!(attributes.file_type, FileType::Directory);
    let names = ok.entries.iter().map(|entry| Name {
        name: entry.name.to_vec(),
        file_id: entry.file_id,
        cookie: entry.cookie,
        object: None,
    });
    let names = names.collect();
    Ok(Page::new(answer, names, ok.verifier, ok.end))
}

fn page_plus_of(answer: &Answer) -> Result<Page, Status> {
    let ok = answer.ok::<ReaddirPlusReply<'_>>()?;
    assert!(ok.directory_attributes.is_some());
    let names = ok.entries.iter().map(|entry| {
        let attributes = entry.attributes.expect("attributes");
        assert_eq!(attributes.file_id, entry.file_id, "one object, one number");
        let handle = entry.handle.expect("a handle").as_bytes().to_vec();
        Name {
            name: entry.name.to_vec(),
            file_id: entry.file_id,
            cookie: entry.cookie,
            object: Some((attributes, handle)),
        }
    });
    let names = names.collect();
    Ok(Page::new(answer, names, ok.verifier, ok.end))
}

impl Page {
    fn new(answer: &Answer, names: Vec<Name>, verifier: Verifier, end: bool) -> Self {
        Self {
            names,
            verifier,
            end,
            bytes: answer.body_bytes(),
        }
    }
}

impl Client {
    pub fn readdir(
        &mut self,
        directory: &[u8],
        cookie: u64,
        verifier: Verifier,
        count: u32,
    ) -> Result<Page, Status> {
        let directory = handle(directory);
        let arguments = ReaddirArguments {
            directory,
            cookie,
            verifier,
            count,
        };
        page_of(&self.nfs(Procedure::Readdir, &arguments))
    }

    pub fn readdirplus(
        &mut self,
        directory: &[u8],
        cookie: u64,
        verifier: Verifier,
        (directory_count, count_max): (u32, u32),
    ) -> Result<Page, Status> {
        let directory = handle(directory);
        let arguments = ReaddirPlusArguments {
            directory,
            cookie,
            verifier,
            directory_count,
            count_max,
        };
        page_plus_of(&self.nfs(Procedure::ReaddirPlus, &arguments))
    }

    /// All names after `cookie` in pages of `count` bytes.
    pub fn list_from(&mut self, directory: &[u8], cookie: u64, count: u32) -> Vec<Name> {
        let mut names: Vec<Name> = Vec::new();
        let (mut cookie, mut verifier) = (cookie, [0; 8]);
        loop {
            let page = self.readdir(directory, cookie, verifier, count);
            let page = page.expect("a page");
            assert!(page.end || !page.names.is_empty(), "an empty page");
            names.extend(page.names);
            if page.end {
                return names;
            }
            cookie = names.last().expect("a name").cookie;
            verifier = page.verifier;
        }
    }

    /// All names, `.` and `..` too.
    pub fn list(&mut self, directory: &[u8]) -> Vec<Name> {
        self.list_from(directory, 0, 8192)
    }
}

/// Without `.` and `..`, sorted.
pub fn sorted(names: &[Name]) -> Vec<Vec<u8>> {
    let others = names
        .iter()
        .map(|name| name.name.clone())
        .filter(|name| name != b"." && name != b"..");
    let mut sorted: Vec<_> = others.collect();
    sorted.sort();
    sorted
}
