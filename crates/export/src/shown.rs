//! Calls of MOUNT, of the lock manager and of the status monitor, as the log shows them: at level
//! debug, each in a span of its own and with a line when it is answered, as those of NFS.
//!
//! While that is not wanted a call pays for one look at the level.

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use pagewell_sunrpc::mount3::PathArguments;
use pagewell_sunrpc::nfs3;
use pagewell_sunrpc::nlm4;
use pagewell_sunrpc::rpc::{Call, Credential};
use pagewell_sunrpc::xdr::Decoder;
use tracing::Span;
use tracing::field::Empty;

use crate::service::exports::Served;
use crate::service::observed::{STATUS_AT, is_detailed, text_of};

/// The longest cookie that a reply of NLM begins with (`MAXNETOBJ_SZ`), in bytes.
const COOKIE_BYTES_MAX: usize = 1024;

/// Where a reply says whether the call was accepted.
const ACCEPTED_AT: usize = STATUS_AT - 4;

/// One that is being answered.
pub(super) struct OtherCall {
    client: IpAddr,
    procedure: String,
    since: Instant,
    span: Span,
}

/// What it is about: an export, and a path in it or of it.
#[derive(Default)]
pub(super) struct About {
    pub(super) export: String,
    pub(super) object: String,
}

impl OtherCall {
    /// Begins to show a call, if that is wanted. `since`: when it came.
    pub(super) fn begin(
        procedure: Option<&dyn Debug>,
        (call, peer): (&Call<'_>, SocketAddr),
        since: Instant,
    ) -> Option<Self> {
        if !is_detailed() {
            return None;
        }
        let client = peer.ip().to_canonical();
        let procedure = match procedure {
            Some(name) => words(name, "_").to_ascii_uppercase(),
            None => format!("procedure {}", call.procedure),
        };
        let uid = match &call.credential {
            Credential::None => None,
            Credential::System(system) => Some(system.uid),
        };
        let span = tracing::debug_span!(
            "call",
            client = %client,
            export = Empty,
            procedure,
            object = Empty,
            uid,
            xid = call.xid,
        );
        Some(Self {
            client,
            procedure,
            since,
            span,
        })
    }

    /// Does a part of the work, inside the span.
    pub(super) fn work<T>(&self, part: impl FnOnce() -> T) -> T {
        self.span.in_scope(part)
    }

    /// Says what it is about, once that is known.
    pub(super) fn is_about(&self, about: &About) {
        self.span.record("export", &*about.export);
        self.span.record("object", &*about.object);
    }

    /// Writes the line of a call that is answered.
    pub(super) fn end(self, about: &About, result: &str) {
        let microseconds = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        let (client, procedure) = (self.client, self.procedure);
        let of = |what: &str, text: &str| match text {
            "" => String::new(),
            text => format!("{what}{text}"),
        };
        let (object, export) = (of(" of ", &about.object), of(", export ", &about.export));
        let _inside = self.span.entered();
        tracing::debug!(
            result,
            microseconds,
            "{procedure}{object} by {client}{export}: {result} in {microseconds}µs"
        );
    }
}

/// `two_words` of `TwoWords`.
fn words(name: &dyn Debug, between: &str) -> String {
    let mut text = String::new();
    for letter in format!("{name:?}").chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text += between;
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// The path of a call of MOUNT that has one, and its export.
pub(super) fn path_of(served: &Served, mut arguments: Decoder<'_>) -> About {
    use pagewell_sunrpc::xdr::Decode;
    let Ok(PathArguments { path }) = PathArguments::decode(&mut arguments) else {
        return About::default();
    };
    let export = served.export_of(path);
    About {
        export: export.map_or(String::new(), |(export, _)| export.config.name.clone()),
        object: text_of(path),
    }
}

/// What a reply of MOUNT says, whose numbers of errors are those of NFS (RFC 1813 appendix I).
pub(super) fn mount_result(reply: &[u8], has_status: bool) -> &'static str {
    let word = |at: usize| {
        let bytes = reply.get(at..).and_then(<[u8]>::first_chunk::<4>);
        bytes.map(|bytes| u32::from_be_bytes(*bytes))
    };
    match (word(ACCEPTED_AT), word(STATUS_AT)) {
        (Some(0), Some(status)) if has_status => {
            nfs3::Status::from_number(status).map_or("failed", nfs3::Status::name)
        }
        (Some(0), _) => "ok",
        _ => "refused",
    }
}

/// What the results of a call of NLM say: a cookie, then a status. Others have none.
pub(super) fn lock_result(results: &[u8]) -> String {
    let mut decoder = Decoder::new(results);
    let status = decoder.opaque(COOKIE_BYTES_MAX).and_then(|_| decoder.u32());
    match status.ok().and_then(nlm4::Status::from_number) {
        Some(status) => words(&status, "_"),
        None => "ok".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_protocols_in_words() {
        assert_eq!(words(&nlm4::Status::GracePeriod, "_"), "grace_period");
        assert_eq!(words(&nlm4::Procedure::Lock, "_"), "lock");
    }

    #[test]
    fn results_are_read_from_replies() {
        let reply = |accepted: u32, status: u32| {
            let head = [0; ACCEPTED_AT];
            [&head[..], &accepted.to_be_bytes(), &status.to_be_bytes()].concat()
        };
        assert_eq!(mount_result(&reply(0, 0), true), "ok");
        assert_eq!(mount_result(&reply(0, 13), true), "acces");
        assert_eq!(mount_result(&reply(0, 13), false), "ok");
        assert_eq!(mount_result(&reply(3, 0), true), "refused");
        assert_eq!(mount_result(&[], true), "refused");
        let lock = |status: u32| {
            let cookie = [0, 0, 0, 2, b'c', b'o', 0, 0];
            lock_result(&[&cookie[..], &status.to_be_bytes()].concat())
        };
        assert_eq!((&*lock(0), &*lock(4)), ("granted", "grace_period"));
        assert_eq!((&*lock(99), &*lock_result(&[])), ("ok", "ok"));
    }
}
