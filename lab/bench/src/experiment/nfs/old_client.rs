//! Writes of the report's client: blocks of 64 KiB, each with one range of dirty bytes, sent as
//! unstable WRITEs over one connection, and one COMMIT at the close of the file.
//!
//! Known weakness: a reply that says "later" is an error.

use std::sync::{Arc, Mutex, PoisonError};

use pagewell_fs::FileId;
use pagewell_source_nfs::Url;
use pagewell_sunrpc::client::{
    self, Client, EncodedCredential, MountOptions, Outgoing, ProcedureStatistics,
};
use pagewell_sunrpc::nfs3::{
    self, CommitArguments, CommitReply, DecodeReply, Handle, Procedure, StableHow, WriteArguments,
    WriteReply,
};

use super::run::REPORT_BLOCK_BYTES;
use crate::experiment::blocks::{BlockBuffers, Ended, Rule, Store};
use crate::experiment::{Error, Result, wrong};

/// A file at a server with such writes.
pub(super) type OldFile = BlockBuffers<OnServer>;

/// A file at a server as a store of blocks.
pub(super) struct OnServer {
    client: Client,
    credential: EncodedCredential,
    id: FileId,
    /// The verifier of all WRITEs; a different one is an error.
    verifier: Arc<Mutex<Option<[u8; 8]>>>,
}

/// Opens a file of an export again, for writing.
pub(super) fn open(url: &Url, id: FileId) -> Result<OldFile> {
    let credential = EncodedCredential::of_process();
    let options = &url.options;
    let mut asked = MountOptions::new(url.host.clone(), url.export.clone());
    asked.nfs_port = options.port;
    asked.mount_port = options.mount_port;
    asked.source_port = options.caller_port;
    asked.credential = credential.clone();
    let mounted = client::mount(&asked).map_err(wrong)?;
    let mut settings = client::Options::new(url.host.clone(), mounted.addresses.clone());
    settings.connections = 1;
    settings.source_port = options.caller_port;
    settings.delay = options.delay;
    let client = Client::connect(nfs3::PROGRAM, nfs3::VERSION, settings);
    let store = OnServer {
        client: client.map_err(wrong)?,
        credential,
        id,
        verifier: Arc::default(),
    };
    let block_bytes = REPORT_BLOCK_BYTES.into();
    Ok(BlockBuffers::new(Rule::OneRange, block_bytes, 1, store))
}

impl OnServer {
    /// The costs of its calls.
    pub(super) fn calls(&self) -> Vec<ProcedureStatistics> {
        self.client.statistics().procedures()
    }

    fn handle(&self) -> Handle<'_> {
        Handle::new(self.id.as_bytes()).unwrap_or_default()
    }
}

impl Store for OnServer {
    const KEEPS: bool = false;

    fn load(&self, _offset: u64, _target: &mut [u8]) -> Result<()> {
        Ok(()) // only the dirty range of a block is ever used
    }

    fn start(&self, offset: u64, bytes: &[u8], ended: Ended) {
        let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let arguments = WriteArguments {
            file: self.handle(),
            offset,
            count,
            stable: StableHow::Unstable,
            data: bytes,
        };
        let call = Outgoing::new(Procedure::Write.number(), &self.credential, &arguments);
        let verifier = self.verifier.clone();
        self.client.submit(call, move |outcome| {
            let reply = outcome.and_then(|reply| reply.decode_with(WriteReply::decode_reply));
            ended(match reply {
                Ok(Ok(done)) if done.count == count => {
                    let mut known = verifier.lock().unwrap_or_else(PoisonError::into_inner);
                    match *known.get_or_insert(done.verifier) == done.verifier {
                        true => Ok(()),
                        false => Err("the server was started again".to_owned()),
                    }
                }
                Ok(Ok(done)) => Err(format!("WRITE took {} of {count} bytes", done.count)),
                Ok(Err(failure)) => Err(format!("WRITE: {}", failure.status.name())),
                Err(error) => Err(format!("WRITE: {error}")),
            });
        });
    }

    fn flush(&self) -> Result<()> {
        let known = *self.verifier.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = known else {
            return Ok(());
        };
        let arguments = CommitArguments {
            file: self.handle(),
            offset: 0,
            count: 0,
        };
        let call = Outgoing::new(Procedure::Commit.number(), &self.credential, &arguments);
        let answer = self.client.call(call, |results| {
            let reply: CommitReply = DecodeReply::decode_reply(results)?;
            Ok(reply.map(|done| done.verifier))
        });
        let answer = answer.map_err(|error| Error::Wrong(format!("COMMIT: {error}")))?;
        match answer.value {
            Ok(verifier) if verifier == known => Ok(()),
            Ok(_) => Err(Error::Wrong("the server was started again".to_owned())),
            Err(failure) => Err(Error::Wrong(format!("COMMIT: {}", failure.status.name()))),
        }
    }
}
