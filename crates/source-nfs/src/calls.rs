//! What all calls to the server have in common.
//!
//! A server that is not ready (JUKEBOX) is asked again, after a pause that doubles, on a soft mount
//! for the time of its patience.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pagewell_fs::{Call, Credentials, Error, FileId, Result, Timestamp};
use pagewell_sunrpc::client::{Answer, CallError, Client, EncodedCredential, Outgoing};
use pagewell_sunrpc::nfs3::{self, DecodeReply, Failure, Procedure, Reply, Status};
use pagewell_sunrpc::xdr::{self, Decoder, Encode};

use super::attributes::{Moment, Moments, Reported};
use super::convert;
use super::options::NfsOptions;
use super::pages::Listed;
use super::url::Url;

/// When the server is not ready.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(100);
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Decodes an answer that borrows nothing.
pub(super) fn whole<T: for<'a> DecodeReply<'a>>(decoder: &mut Decoder<'_>) -> xdr::Result<T> {
    T::decode_reply(decoder)
}

/// Whether the server lacks the procedure, for any call.
pub(super) fn lacks_procedure(error: &CallError) -> bool {
    matches!(error, CallError::Refused(refusal) if refusal.lacks_procedure(nfs3::VERSION))
}

/// Refuses to wait for the server on a thread that may not.
pub(super) fn may_wait(call: &Call<'_>) -> Result<()> {
    Error::WouldBlock.unless(call.may_block)
}

/// An answer, and its call.
pub(super) struct Answered<T, F> {
    pub value: Reply<T, F>,
    pub sent: Moment,
    pub was_resent: bool,
}

pub(super) struct Calls {
    client: Client,
    /// The server and its export, for messages.
    name: String,
    options: NfsOptions,
    /// The number of the file system for fronts, and at the server now.
    shown_filesystem_id: u64,
    filesystem_id: AtomicU64,
    moments: Moments,
    has_ended: AtomicBool,
}

impl Calls {
    /// `filesystem_id` is that of the root.
    pub(super) fn new(client: Client, url: &Url, filesystem_id: u64) -> Self {
        Self {
            client,
            name: url.name(),
            options: url.options.clone(),
            shown_filesystem_id: filesystem_id,
            filesystem_id: AtomicU64::new(filesystem_id),
            moments: Moments::default(),
            has_ended: AtomicBool::new(false),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn options(&self) -> &NfsOptions {
        &self.options
    }

    /// Refuses to change a read-only mount.
    pub(super) fn may_change(&self, call: &Call<'_>) -> Result<()> {
        Error::ReadOnly.when(self.options.read_only)?;
        may_wait(call)
    }

    /// Makes a call and waits for its answer. A missing procedure is a call that the server does
    /// not support.
    pub(super) fn ask<T, F: Default>(
        &self,
        call: &Call<'_>,
        procedure: Procedure,
        arguments: &impl Encode,
        decode: impl Fn(&mut Decoder<'_>) -> xdr::Result<Reply<T, F>>,
    ) -> Result<Answered<T, F>> {
        let credential = self.credential(call.credentials);
        let mut patience = self.patience();
        let mut was_resent = false;
        loop {
            let sent = self.now();
            let outgoing = Outgoing::new(procedure.number(), &credential, arguments);
            let answer = match self.client.call(outgoing, &decode) {
                Err(error) if lacks_procedure(&error) => Answer {
                    value: Err(Failure {
                        status: Status::NotSupported,
                        body: F::default(),
                    }),
                    resent: false,
                },
                answer => answer.map_err(|error| self.failure(&error))?,
            };
            // An earlier attempt, whose answer was lost, may have been done.
            was_resent |= answer.resent;
            if matches!(&answer.value, Err(failure) if failure.status == Status::Jukebox)
                && let Some(pause) = patience.next()
            {
                self.pause(pause)?;
                continue;
            }
            return Ok(Answered {
                value: answer.value,
                sent,
                was_resent,
            });
        }
    }

    /// The server's new number of the root's file system. Objects keep theirs.
    pub(super) fn set_filesystem_id(&self, filesystem_id: u64) {
        self.filesystem_id.store(filesystem_id, Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> Moment {
        self.moments.now()
    }

    /// Ends all calls.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        self.client.stop();
    }

    pub(super) fn have_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// What calls of this user begin with.
    pub(super) fn credential(&self, user: &Credentials) -> EncodedCredential {
        self.options.credential(user)
    }

    /// How long to ask a server that is not ready.
    pub(super) fn patience(&self) -> Patience {
        let until = || Instant::now() + self.options.soft_time();
        Patience::new(self.options.soft.then(until))
    }

    /// Unless the mount ends.
    fn pause(&self, pause: Duration) -> Result<()> {
        let until = Instant::now() + pause;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if self.have_ended() {
                return Err(self.failure(&CallError::Stopped));
            }
            std::thread::sleep(left.min(PAUSE_MIN));
        }
        Ok(())
    }

    /// The caller's error of a call without an answer.
    pub(super) fn failure(&self, error: &CallError) -> Error {
        match error {
            error if lacks_procedure(error) => Error::NotSupported,
            CallError::QueueFull => Error::TryLater,
            other => Error::Io(format!("{}: {other}", self.name)),
        }
    }

    /// The number of an entry of a directory with these attributes.
    pub(super) fn listed_id(
        &self,
        listed: &Listed,
        directory: Option<&nfs3::FileAttributes>,
    ) -> u64 {
        let file_id = listed.file_id;
        if file_id == 0 {
            let id = listed.id();
            return convert::number_of(id.as_ref().map_or(&listed.name, FileId::as_bytes));
        }
        let mounted = self.filesystem_id.load(Ordering::Relaxed);
        let listed = directory.map_or(mounted, |attributes| attributes.filesystem_id);
        convert::file_id((listed, file_id), mounted)
    }

    /// Attributes from the answer to a call that was sent at `sent`.
    pub(super) fn reported(
        &self,
        id: &FileId,
        reported: &nfs3::FileAttributes,
        sent: Moment,
    ) -> Reported {
        let mounted = self.filesystem_id.load(Ordering::Relaxed);
        let mut attributes = convert::attributes(reported, mounted);
        attributes.filesystem_id = self.shown_filesystem_id;
        if reported.file_id == 0 {
            attributes.file_id = convert::number_of(id.as_bytes());
        }
        let lifetime = self.options.ages.lifetime(&attributes, Timestamp::now());
        Reported {
            attributes,
            sent,
            answered: self.now(),
            until: Instant::now() + lifetime,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pause: Duration,
    until: Option<Instant>,
}

impl Patience {
    /// Ends then, or never.
    pub(super) fn new(until: Option<Instant>) -> Self {
        Self {
            pause: PAUSE_MIN,
            until,
        }
    }
}

impl Iterator for Patience {
    type Item = Duration;

    /// `None`: give up.
    fn next(&mut self) -> Option<Duration> {
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE_MAX);
        let is_over = self
            .until
            .is_some_and(|until| Instant::now() + pause > until);
        (!is_over).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_and_end_when_they_are_to() {
        let pauses = Patience::new(None).map(|pause| pause.as_millis());
        let all: Vec<u128> = pauses.take(8).collect();
        assert_eq!(all, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(Patience::new(None).nth(10_000), Some(PAUSE_MAX));
        let until = |time| Patience::new(Some(Instant::now() + time));
        assert_eq!(until(PAUSE_MAX * 1000).nth(10), Some(PAUSE_MAX));
        assert_eq!(until(PAUSE_MIN).nth(1), None);
    }
}
