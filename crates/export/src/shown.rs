//! Calls of MOUNT, NLM and the status monitor in the log: at level debug a span and a line for
//! each, as for NFS.

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use pagewell_base::mix::mix;
use pagewell_fs::FileId;
use pagewell_sunrpc::rpc::{Call, Credential};
use tracing::field::Empty;
use tracing::{Level, Span};

use crate::exports::ServedExport;

/// A call in the log.
pub struct OtherCall {
    client: IpAddr,
    procedure: String,
    since: Instant,
    span: Span,
}

/// The subject of a call.
#[derive(Default)]
pub struct About {
    /// The export's name.
    pub export: String,
    /// A path in it or of it.
    pub object: String,
}

impl OtherCall {
    /// If the level asks for it. `since`: arrival.
    pub fn begin(
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

    /// Inside the span.
    pub fn work<T>(&self, part: impl FnOnce() -> T) -> T {
        self.span.in_scope(part)
    }

    /// In the span.
    pub fn is_about(&self, about: &About) {
        self.span.record("export", &*about.export);
        self.span.record("object", &*about.object);
    }

    /// Logs the reply.
    pub fn end(self, about: &About, result: &str) {
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
pub fn words(name: &dyn Debug, between: &str) -> String {
    let mut text = String::new();
    for letter in format!("{name:?}").chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text += between;
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// Whether the log wants each call.
pub fn is_detailed() -> bool {
    tracing::enabled!(Level::DEBUG)
}

/// Bytes that are no text are `\xHH`.
pub fn text_of(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) => text.to_owned(),
        Err(_) => name.escape_ascii().to_string(),
    }
}

/// The path of an object, if known without I/O, else `#` and a hash of its handle.
pub fn object(export: Option<&ServedExport>, id: Option<&FileId>, handle: &[u8]) -> String {
    let path = export.zip(id);
    let path = path.and_then(|(export, id)| export.config.filesystem.path_of(id));
    // A source may call its root by a path that ends in `/`.
    let path = path.map(|path| match path.strip_suffix('/') {
        Some(named) if !named.is_empty() => named.to_owned(),
        _ => path,
    });
    path.unwrap_or_else(|| {
        let hash = handle
            .iter()
            .fold(0, |hash, byte| mix(hash ^ u64::from(*byte)).rotate_left(8));
        format!("#{:08x}", hash >> 32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_protocols_in_words() {
        #[derive(Debug)]
        enum Status {
            GracePeriod,
            Lock,
        }
        assert_eq!(words(&Status::GracePeriod, "_"), "grace_period");
        assert_eq!(words(&Status::Lock, "_"), "lock");
    }

    #[test]
    fn names_that_are_no_text_are_escaped() {
        assert_eq!(text_of("größe".as_bytes()), "größe");
        assert_eq!(text_of(b"a\xffb"), "a\\xffb");
    }

    #[test]
    fn a_handle_without_a_path_has_a_short_hash() {
        let (first, second) = (object(None, None, b"one"), object(None, None, b"two"));
        assert_eq!((first.len(), &first[..1]), (9, "#"));
        assert_ne!(first, second);
    }
}
