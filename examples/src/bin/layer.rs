//! A layer over a source: files whose names begin with a dot are not there.
//!
//!     cargo run -p pagewell-examples --bin layer DIRECTORY
//!
//! `forward!` hands on what the layer does not change. The trait's other methods refuse changes by
//! themselves, so that this layer is only read, also where the source below could be written.

use std::error::Error as Failure;
use std::path::Path;
use std::sync::Arc;

use pagewell_fs::{
    Call, DirectoryEntry, DirectoryPage, Entry, Error, FileId, FileSystem, Limits, Result, forward,
};
use pagewell_nfsd::{Config, Export, Server};
use pagewell_source_dir::{Directory, Options};

struct WithoutDotFiles<F>(F);

fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(b".") && name != b"." && name != b".."
}

impl<F: FileSystem> FileSystem for WithoutDotFiles<F> {
    forward! { self => self.0;
        describe, root, attributes, access, read_link, read, statistics,
    }

    fn prepare_thread(&self) {
        self.0.prepare_thread();
    }

    fn limits(&self) -> Limits {
        Limits {
            read_only: true,
            ..self.0.limits()
        }
    }

    fn lookup(&self, call: &Call<'_>, directory: &FileId, name: &[u8]) -> Result<Entry> {
        if is_hidden(name) {
            return Err(Error::NotFound);
        }
        self.0.lookup(call, directory, name)
    }

    fn read_directory(
        &self,
        call: &Call<'_>,
        directory: &FileId,
        cookie: u64,
        with_attributes: bool,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> bool,
    ) -> Result<DirectoryPage> {
        // An entry that is left out counts as taken: the listing goes on behind it.
        let mut shown = |entry: &DirectoryEntry<'_>| is_hidden(entry.name) || visit(entry);
        self.0
            .read_directory(call, directory, cookie, with_attributes, &mut shown)
    }
}

fn main() -> std::result::Result<(), Box<dyn Failure>> {
    let directory = std::env::args_os().nth(1).ok_or("usage: layer DIRECTORY")?;
    let below = Directory::open(Path::new(&directory), Options::default())?;
    let export = Export::new("/", Arc::new(WithoutDotFiles(below)));
    let config = Config::new(vec![export], [7; 16]);
    let server = Server::start(pagewell_examples::on_any_port(config))?;
    println!("serving {}", server.address());
    pagewell_examples::wait_for_end_of_input();
    Ok(server.stop()?)
}
