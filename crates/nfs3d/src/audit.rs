//! The audit log: changes of exports, their callers and results.
//!
//! Each change, done or refused, is an event of the target `audit` at level info; replayed replies
//! are not. Of a file's WRITEs with one user, address and result, only the first in [`PERIOD`] is
//! recorded, as more say nothing new.
//!
//! Weakness: with over [`FILES_MAX`] files in a period WRITEs are recorded more often.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use pagewell_base::sync::Mutex;
use pagewell_fs::FileId;
use pagewell_sunrpc::nfs3::{DirectoryOperation, LinkArguments, Procedure, RenameArguments};

use crate::nfs3::{NfsCall, kind};
use crate::observed::Summary;
use pagewell_export::exports::Served;
use pagewell_export::shown::{object, text_of};
use pagewell_rpcd::call::{credentials_of, decode};
use pagewell_rpcd::slow::Kind;

/// The target of the events.
pub(super) const TARGET: &str = "audit";

/// How long a WRITE stands for later ones.
const PERIOD: Duration = Duration::from_secs(60);

/// Files with a remembered WRITE.
const FILES_MAX: usize = 4096;

/// What makes WRITEs alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct WriteKey {
    export: u32,
    file: FileId,
    client: IpAddr,
    uid: Option<u32>,
    result: &'static str,
}

/// Recently recorded WRITEs.
#[derive(Default)]
struct Writes(Option<HashMap<WriteKey, Instant>>);

static WRITES: Mutex<Writes> = Mutex::new(Writes(None));

impl Writes {
    /// Whether to record a WRITE.
    fn is_first(&mut self, key: WriteKey, now: Instant) -> bool {
        let all = self.0.get_or_insert_default();
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) < PERIOD;
        if all.get(&key).is_some_and(is_recent) {
            return false;
        }
        if all.len() >= FILES_MAX {
            all.retain(|_, at| is_recent(at));
        }
        if all.len() >= FILES_MAX {
            all.clear();
        }
        all.insert(key, now);
        true
    }
}

/// Whether a procedure changes something.
pub(super) fn is_change(procedure: Procedure) -> bool {
    kind(procedure) == Kind::Change
}

/// The second directory and name, of RENAME and LINK.
fn target(call: &NfsCall<'_>, served: &Served) -> Option<(String, String)> {
    let to: DirectoryOperation<'_> = match call.procedure {
        Procedure::Rename => decode::<RenameArguments<'_>>(call.arguments).ok()?.to,
        Procedure::Link => decode::<LinkArguments<'_>>(call.arguments).ok()?.link,
        _ => return None,
    };
    let handle = to.directory.as_bytes();
    let decoded = served.decode(handle);
    let export = decoded.as_ref().and_then(|(export, _)| *export);
    let id = decoded.map(|(_, id)| id);
    Some((object(export, id.as_ref(), handle), text_of(to.name)))
}

/// Records a change.
pub(super) fn note(
    call: &NfsCall<'_>,
    served: &Served,
    summary: &Summary<'_>,
    result: &'static str,
) {
    let Some((export, file)) = summary.export.zip(summary.id) else {
        return;
    };
    let key = WriteKey {
        export: export.number(),
        file,
        client: summary.client,
        uid: summary.uid,
        result,
    };
    let is_write = call.procedure == Procedure::Write;
    if is_write && !WRITES.lock().is_first(key, Instant::now()) {
        return;
    }
    let caller = credentials_of(&call.head);
    let used = export.config.squashed(caller.as_ref());
    let to = target(call, served);
    let shown = to.as_ref();
    let shown = shown.map(|(directory, name)| format!(" to {name} in {directory}"));
    tracing::info!(
        target: TARGET,
        client = %summary.client,
        uid = summary.uid,
        gid = caller.map(|caller| caller.gid),
        used_uid = used.uid,
        used_gid = used.gid,
        export = summary.export_name(),
        procedure = summary.procedure,
        object = summary.object,
        name = summary.name,
        to_directory = to.as_ref().map(|(directory, _)| directory),
        to_name = to.as_ref().map(|(_, name)| name),
        result,
        "audit: {}{}: {result}",
        summary.text(),
        shown.unwrap_or_default(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(file: u32, result: &'static str) -> WriteKey {
        WriteKey {
            export: 1,
            file: FileId::of(&file.to_be_bytes()),
            client: IpAddr::from([10, 0, 0, 1]),
            uid: Some(1000),
            result,
        }
    }

    #[test]
    fn the_first_write_of_a_minute_is_recorded() {
        let mut writes = Writes::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(writes.is_first(key(1, "ok"), start));
        assert!(!writes.is_first(key(1, "ok"), at(59)));
        assert!(writes.is_first(key(1, "nospc"), at(59)));
        assert!(writes.is_first(key(2, "ok"), at(59)));
        assert!(writes.is_first(key(1, "ok"), at(60)));
        assert!(!writes.is_first(key(1, "ok"), at(61)));
    }

    #[test]
    fn a_million_files_take_no_memory() {
        let mut writes = Writes::default();
        let start = Instant::now();
        for file in 0..1_000_000 {
            assert!(writes.is_first(key(file, "ok"), start));
        }
        assert!(writes.0.unwrap().len() <= FILES_MAX);
    }
}
