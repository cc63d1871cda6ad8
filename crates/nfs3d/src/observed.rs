//! NFS calls in the log: each at level debug, slow ones at warn, changes in the audit log.
//!
//! Otherwise a call costs two loads of constant values: the least latency of interest, and the
//! log's level. All else comes from the call and its reply on demand.
//!
//! Weakness: device time is the wait of a thread below the page cache, or for another server; waits
//! of the kernel for directories do not show.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pagewell_base::waits;
use pagewell_fs::FileId;
use pagewell_sunrpc::nfs3::{self, NAME_BYTES_MAX, Procedure, Status};
use pagewell_sunrpc::rpc::Credential;

use crate::audit;
use crate::duplicate::Pending;
use crate::nfs3::NfsCall;
use pagewell_counters::procedures::Answered;
use pagewell_export::exports::{Served, ServedExport};
use pagewell_export::shown::{is_detailed, object, text_of};
use pagewell_rpcd::call::Answer;

/// The least latency of interest.
static FROM_NANOSECONDS: AtomicU64 = AtomicU64::new(u64::MAX);
/// The least latency of a slow call.
static SLOW_NANOSECONDS: AtomicU64 = AtomicU64::new(u64::MAX);

/// The status in a reply, behind the RPC head without marker.
pub(super) const STATUS_AT: usize = 24;

/// Makes all servers of this process log calls of `slow` or longer, and audit changes if `audits`.
pub fn watch_calls(slow: Option<Duration>, audits: bool) {
    let slow = slow.map_or(u64::MAX, nanoseconds);
    SLOW_NANOSECONDS.store(slow, Ordering::Relaxed);
    let from = if audits { 0 } else { slow };
    FROM_NANOSECONDS.store(from, Ordering::Relaxed);
}

fn nanoseconds(time: Duration) -> u64 {
    let seconds = time.as_secs().saturating_mul(1_000_000_000);
    seconds.saturating_add(u64::from(time.subsec_nanos()))
}

fn microseconds(time: Duration) -> u64 {
    nanoseconds(time) / 1000
}

/// Whether a call of this latency is of interest.
pub(super) fn is_wanted(latency: Duration) -> bool {
    nanoseconds(latency) >= FROM_NANOSECONDS.load(Ordering::Relaxed) || is_detailed()
}

/// The subject of a call.
pub(super) struct Summary<'a> {
    pub(super) client: IpAddr,
    /// As the client claims, if it does.
    pub(super) uid: Option<u32>,
    pub(super) export: Option<&'a ServedExport>,
    pub(super) id: Option<FileId>,
    pub(super) procedure: String,
    /// The path of the object or directory, else a hash of its handle.
    pub(super) object: String,
    /// The name in that directory, if any.
    pub(super) name: Option<String>,
}

impl<'a> Summary<'a> {
    pub(super) fn of(call: &NfsCall<'_>, served: &'a Served) -> Self {
        let mut arguments = call.arguments;
        let handle = arguments.opaque(nfs3::HANDLE_BYTES_MAX).unwrap_or_default();
        let decoded = served.decode(handle);
        let export = decoded.as_ref().and_then(|(export, _)| *export);
        let id = decoded.map(|(_, id)| id);
        let has_name = matches!(
            call.procedure,
            Procedure::Lookup
                | Procedure::Create
                | Procedure::Mkdir
                | Procedure::Symlink
                | Procedure::Mknod
                | Procedure::Remove
                | Procedure::Rmdir
                | Procedure::Rename
        );
        let name = has_name.then(|| arguments.opaque(NAME_BYTES_MAX).ok().map(text_of));
        Self {
            client: call.request.connection.peer.ip().to_canonical(),
            uid: match &call.head.credential {
                Credential::None => None,
                Credential::System(system) => Some(system.uid),
            },
            object: object(export, id.as_ref(), handle),
            export,
            id,
            procedure: call.procedure.name().to_ascii_uppercase(),
            name: name.flatten(),
        }
    }

    pub(super) fn export_name(&self) -> &'a str {
        self.export.map_or("", |export| &export.config.name)
    }

    /// `REMOVE of NAME in /srv/data by 10.0.0.1, export /data`.
    pub(super) fn text(&self) -> String {
        let name = self.name.as_ref().map(|name| format!("{name} in "));
        format!(
            "{} of {}{} by {}, export {}",
            self.procedure,
            name.unwrap_or_default(),
            self.object,
            self.client,
            self.export_name()
        )
    }
}

/// The result of a reply; `reply` is its bytes without data.
pub(super) fn result_of(answered: &Answered, reply: &[u8]) -> &'static str {
    let status = reply.get(STATUS_AT..).and_then(<[u8]>::first_chunk::<4>);
    match status.map(|word| Status::from_number(u32::from_be_bytes(*word))) {
        Some(Some(status)) => status.name(),
        // A READ with data elsewhere, or a call without status.
        _ if !answered.failed => Status::Ok.name(),
        _ => "failed",
    }
}

/// Answers a call inside its span.
#[cold]
#[inline(never)]
pub(super) fn in_span(
    call: &NfsCall<'_>,
    served: &Served,
    answer: impl FnOnce() -> Answer<Pending>,
) -> Answer<Pending> {
    let summary = Summary::of(call, served);
    let span = tracing::debug_span!(
        "call",
        client = %summary.client,
        export = summary.export_name(),
        procedure = summary.procedure,
        object = summary.object,
        name = summary.name,
        uid = summary.uid,
        xid = call.head.xid,
    );
    let _inside = span.entered();
    answer()
}

/// Logs an answered call where wanted.
#[cold]
#[inline(never)]
pub(super) fn show(call: &NfsCall<'_>, served: &Served, answered: &Answered, reply: &[u8]) {
    let slow = SLOW_NANOSECONDS.load(Ordering::Relaxed);
    let is_slow = nanoseconds(answered.latency) >= slow;
    let is_change = audit::is_change(call.procedure);
    if !is_slow && !is_change && !is_detailed() {
        return;
    }
    let summary = Summary::of(call, served);
    let result = result_of(answered, reply);
    if is_change && summary.export.is_some_and(|export| export.config.audit) {
        audit::note(call, served, &summary, result);
    }
    if is_slow {
        show_slow(call, &summary, answered, result);
    } else if is_detailed() {
        show_call(call, &summary, answered, result);
    }
}

/// The times that a call waited for a thread and for a device.
fn waits_of(call: &NfsCall<'_>) -> (Duration, Duration) {
    let request = &call.request;
    let began = request.began_at.unwrap_or(request.received_at);
    let queue = began.saturating_duration_since(request.received_at);
    // A reader thread has not waited.
    let device = request.began_at.map_or(Duration::ZERO, |_| waits::taken());
    (queue, device)
}

/// `OK in 12ms (3ms in the queue, 8ms at the device)`.
fn text_of_times(answered: &Answered, (queue, device): (Duration, Duration)) -> String {
    let shown = |time: Duration| Duration::from_micros(microseconds(time));
    let (all, queue, device) = (shown(answered.latency), shown(queue), shown(device));
    format!("{all:?} ({queue:?} in the queue, {device:?} at the device)")
}

macro_rules! event {
    ($level:ident, $call:expr, $summary:expr, $answered:expr, $result:expr, $before:literal
        $(, $field:ident = $value:expr)*) => {{
        let (summary, answered, waits) = ($summary, $answered, waits_of($call));
        tracing::$level!(
            $($field = $value,)*
            client = %summary.client,
            export = summary.export_name(),
            procedure = summary.procedure,
            object = summary.object,
            name = summary.name,
            uid = summary.uid,
            result = $result,
            microseconds = microseconds(answered.latency),
            queue_microseconds = microseconds(waits.0),
            device_microseconds = microseconds(waits.1),
            received_bytes = answered.received,
            sent_bytes = answered.sent,
            "{}{}: {} in {}",
            $before,
            summary.text(),
            $result,
            text_of_times(answered, waits),
        );
    }};
}

fn show_call(call: &NfsCall<'_>, summary: &Summary<'_>, answered: &Answered, result: &str) {
    event!(debug, call, summary, answered, result, "");
}

fn show_slow(call: &NfsCall<'_>, summary: &Summary<'_>, answered: &Answered, result: &str) {
    event!(
        warn,
        call,
        summary,
        answered,
        result,
        "slow: ",
        limit = tracing::field::display(summary.client)
    );
}

/// Logs that a stalled call got "try later".
pub(super) fn show_stalled(client: IpAddr, export: &str, procedure: Procedure, limit: Duration) {
    let client = client.to_canonical();
    let procedure = procedure.name().to_ascii_uppercase();
    let text = format!(
        "{procedure} by {client}, export {export}: storage has not answered for {limit:?}: the \
         client is asked to try again"
    );
    if SLOW_NANOSECONDS.load(Ordering::Relaxed) == u64::MAX {
        tracing::debug!(%client, export, procedure, "{text}");
    } else {
        tracing::warn!(limit = %client, %client, export, procedure, "slow: {text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(failed: bool) -> Answered {
        Answered {
            failed,
            received: 100,
            sent: 32,
            latency: Duration::from_micros(1500),
        }
    }

    #[test]
    fn the_result_is_read_from_the_reply() {
        let reply = |status: u32| [&[0; STATUS_AT][..], &status.to_be_bytes()].concat();
        assert_eq!(result_of(&answered(false), &reply(0)), "ok");
        // A name that is not there is no failure, and no success.
        assert_eq!(result_of(&answered(false), &reply(2)), "noent");
        assert_eq!(result_of(&answered(true), &reply(28)), "nospc");
        // The head of a READ whose data is sent from where it is has left already.
        assert_eq!(result_of(&answered(false), b""), "ok");
        assert_eq!(result_of(&answered(true), &reply(12345)), "failed");
    }

    #[test]
    fn times_say_what_was_waited_for() {
        let waits = (Duration::from_micros(200), Duration::from_nanos(1_000_999));
        let text = text_of_times(&answered(false), waits);
        assert_eq!(text, "1.5ms (200µs in the queue, 1ms at the device)");
    }

    #[test]
    fn calls_are_looked_at_when_they_are_slow_or_changes_are_recorded() {
        let (short, long) = (Duration::from_micros(1), Duration::from_secs(1));
        watch_calls(None, false);
        assert!(!is_wanted(short) && !is_wanted(long));
        watch_calls(Some(long), false);
        assert!(!is_wanted(short) && is_wanted(long));
        watch_calls(Some(long), true);
        assert!(is_wanted(short));
        watch_calls(None, false);
    }
}
