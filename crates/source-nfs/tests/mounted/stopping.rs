//! A server of an export of another server ends, also when that one does not answer.

use std::sync::Arc;
use std::time::Duration;

use pagewell_cache::{Cache, CacheOptions};
use pagewell_nfsd::{Loss, Server};
use pagewell_source_nfs::{NfsFileSystem, Url};
use pagewell_sunrpc::nfs3::{Procedure, ReadArguments, StableHow};

use super::pattern;
use crate::fixture::{connect, export, ram, serve};
use crate::layer::{Layer, Stalls, make_file};
use crate::operations::handle;

/// A server of what another one has, which keeps some calls until its gate is open.
struct Relayed {
    behind: Server,
    stalls: Arc<Stalls>,
    server: Server,
}

impl Relayed {
    fn new(operations: &[&'static str]) -> Self {
        let memory = ram();
        make_file(&*memory, b"file", &pattern(100_000, 5));
        let (layer, stalls) = Layer::new(memory, Stalls::at(operations));
        let behind = serve(vec![export("/", layer)]);
        let url = format!("nfs://{}/?actimeo=600&readahead=0", behind.address());
        let cache = Cache::new(CacheOptions::new(32 << 20)).unwrap();
        let mounted = NfsFileSystem::mount(&Url::parse(&url).unwrap(), &cache).unwrap();
        let server = serve(vec![export("/", Arc::new(mounted))]);
        Self {
            behind,
            stalls,
            server,
        }
    }

    /// Stops the server in the middle; what it says.
    fn stop(self) -> Vec<Loss> {
        let losses = self.server.stop_within(Duration::from_millis(300));
        self.stalls.gate.open();
        self.behind.stop().unwrap();
        losses
    }
}

#[test]
fn what_a_silent_server_did_not_take_is_said_to_be_lost() {
    let relayed = Relayed::new(&["write", "commit"]);
    let (mut client, root) = connect(&relayed.server);
    let file = client.lookup(&root, b"file").unwrap().handle;
    let bytes = pattern(70_000, 6);
    let written = client.write(&file, 1000, &bytes, StableHow::Unstable);
    assert_eq!(written.unwrap().count, 70_000);
    let losses = relayed.stop();
    let expected = Loss {
        export: "/".to_owned(),
        result: Ok(70_000),
    };
    assert_eq!(losses, [expected]);
}

#[test]
fn a_read_that_is_not_answered_keeps_no_server() {
    let relayed = Relayed::new(&["read"]);
    let (mut client, root) = connect(&relayed.server);
    let file = client.lookup(&root, b"file").unwrap().handle;
    let arguments = ReadArguments {
        file: handle(&file),
        offset: 0,
        count: 4096,
    };
    client.start(Procedure::Read, &arguments);
    relayed.stalls.gate.wait_for(1);
    assert_eq!(relayed.stop(), []);
}
