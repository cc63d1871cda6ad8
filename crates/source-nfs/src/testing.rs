//! What the tests of this folder share.

use std::net::TcpListener;
use std::sync::Arc;

use pagewell_fs::{Attributes, FileType, Timestamp};
use pagewell_sunrpc::client::{Client, Options};

use crate::calls::Calls;
use crate::url::Url;

/// Calls to a server that takes connections and never answers.
pub(crate) fn calls() -> (Arc<Calls>, TcpListener) {
    let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let options = Options::new("nobody", vec![server.local_addr().unwrap()]);
    let client = Client::connect(100_003, 3, options).unwrap();
    let calls = Calls::new(client, &Url::parse("nfs://nobody/").unwrap(), 1);
    (Arc::new(calls), server)
}

/// Attributes of an object of this type.
pub(crate) fn attributes(file_type: FileType) -> Attributes {
    Attributes {
        file_type,
        mode: 0o644,
        link_count: 1,
        uid: 1,
        gid: 2,
        size: 0,
        used: 0,
        device: (0, 0),
        filesystem_id: 3,
        file_id: 4,
        accessed: Timestamp::default(),
        modified: Timestamp::default(),
        changed: Timestamp::default(),
        may_be_kept: true,
    }
}
