//! Locks on files, as clients ask for them with NLM version 4, and what restarts do to them.

mod datagrams;
mod peer;
pub(crate) mod program;
mod restart;
mod rules;
mod slow;
mod waiting;

use std::net::SocketAddr;
use std::sync::Arc;

use pagewell_fs::FileSystem;
use pagewell_nfsd::{Config, Server};

use crate::fixture::{connect, export, ram, serve_with};
use crate::operations::FileHandle;

const HERE: [u8; 4] = [127, 0, 0, 1];
const ELSEWHERE: [u8; 4] = [127, 0, 0, 2];
/// Of a port mapper that is not there: port 0 has no listener.
pub(crate) const NOBODY: u16 = 0;

/// A server with one file.
struct Served {
    server: Option<Server>,
    filesystem: Arc<dyn FileSystem>,
    address: SocketAddr,
    file: FileHandle,
}

impl Served {
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        let filesystem = ram();
        let server = serve_with(vec![export("/", filesystem.clone())], |config| {
            config.locks.port_mapper = NOBODY;
            change(config);
        });
        let (mut client, root) = connect(&server);
        let file = client.make_file(&root, b"file", b"0123456789");
        Self {
            address: server.address(),
            server: Some(server),
            filesystem,
            file,
        }
    }

    /// Another life on the same port.
    fn restart(&mut self, change: impl FnOnce(&mut Config)) {
        drop(self.server.take());
        let address = self.address;
        let exports = vec![export("/", self.filesystem.clone())];
        self.server = Some(serve_with(exports, |config| {
            config.locks.port_mapper = NOBODY;
            config.listen = address;
            change(config);
        }));
    }

    fn program(&self, machine: &'static str, process: i32) -> program::Program {
        program::Program::new(self.address, machine, process, &self.file)
    }
}
