//! A store that is one file of an NFS server.
//!
//! Operations, among which the cut is, are WRITE and COMMIT calls. The one at which the client
//! dies is sent, and nobody waits for the answer. What was not sent yet is lost.

use std::net::SocketAddr;

use pagewell_base::sync::Mutex;

use crate::random::Random;
use crate::store::{Result, Store};
use crate::writer::{Event, Trouble, Writer};

/// The store.
pub(crate) struct RemoteStore {
    writer: Mutex<Writer>,
}

impl RemoteStore {
    /// Uses the file `name` of the export `/`; it must be there. Dies at a call.
    pub(crate) fn connect(
        address: SocketAddr,
        name: &[u8],
        calls_left: u64,
        random: Random,
    ) -> Self {
        let mut writer = Writer::connect(address, b"/", name, random);
        writer.arm(calls_left, Event::Die);
        let writer = Mutex::new(writer);
        Self { writer }
    }

    /// The client dies.
    pub(crate) fn die(&self) {
        self.writer.lock().die();
    }
}

fn described<T>(result: std::result::Result<T, Trouble>) -> Result<T> {
    result.map_err(|trouble| format!("{trouble:?}"))
}

impl Store for RemoteStore {
    fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        described(self.writer.lock().read(offset, target))
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        described(self.writer.lock().write(offset, data))
    }

    fn sync(&self) -> Result<()> {
        described(self.writer.lock().sync())
    }

    fn is_cut(&self) -> bool {
        self.writer.lock().is_gone()
    }
}
