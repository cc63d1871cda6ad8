//! Warnings of exports for the page: what storage failed or holds, what became of the opened place,
//! why it cannot be written.
//!
//! A thread of its own looks at the places every [`PERIOD`], if there is a page: a look may wait
//! for a disk, which is a warning, too.
//!
//! Known weakness: while one place does not answer, the thread does not look at the others.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use pagewell_base::sync::Mutex;
use pagewell_monitor::status::Status;
use pagewell_nfsd::faults::Faults;
use rustix::fs::StatVfsMountFlags;

use super::opened::OpenExport;
use crate::source::Source;

const PERIOD: Duration = Duration::from_secs(2);

/// A longer look is a warning.
const LOOK_MAX: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct ExportWatch {
    /// What the server notes.
    pub(super) faults: Arc<Faults>,
    place: Option<Place>,
}

/// Where an export was opened.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    /// Device and inode of what was opened.
    opened: (u64, u64),
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    /// Since when a look goes on.
    looking: Option<Instant>,
    warnings: Vec<String>,
}

impl ExportWatch {
    pub(super) fn of(source: &Source) -> Self {
        let place = source.storage.path().ok().and_then(|path| {
            Some(Place {
                path: path.to_owned(),
                opened: identity(&path.metadata().ok()?),
                found: Mutex::default(),
            })
        });
        Self {
            faults: Arc::default(),
            place,
        }
    }

    /// The warnings now, without a wait. `is_written`: clients are to change the export.
    pub(super) fn warnings(&self, is_written: bool, now: Instant) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.faults.is_stalled(now) {
            warnings.push("its storage does not answer: clients wait".to_owned());
        }
        if let Some((count, last)) = self.faults.errors() {
            let ago = SystemTime::now().duration_since(last.at);
            let ago = Duration::from_secs(ago.unwrap_or_default().as_secs());
            let calls = if count == 1 { "call" } else { "calls" };
            warnings.push(format!(
                "its storage failed {count} {calls}, last {ago:?} ago: {}",
                last.text
            ));
        }
        let Some(place) = &self.place else {
            return warnings;
        };
        let found = place.found.lock();
        let is_late = |since: Instant| now.saturating_duration_since(since) > LOOK_MAX;
        if found.looking.is_some_and(is_late) {
            warnings.push(format!("{} does not answer", place.path.display()));
        }
        let found = found.warnings.iter();
        let counts = |text: &&String| is_written || *text != READ_ONLY;
        warnings.extend(found.filter(counts).cloned());
        warnings
    }

    /// Looks at the place, which may wait.
    fn look(&self) {
        let Some(place) = &self.place else {
            return;
        };
        place.found.lock().looking = Some(Instant::now());
        let warnings = place.look();
        *place.found.lock() = Found {
            looking: None,
            warnings,
        };
    }
}

const READ_ONLY: &str = "its file system is mounted to be read only: changes are refused";

impl Place {
    fn look(&self) -> Vec<String> {
        let shown = self.path.display();
        match self.path.metadata() {
            Err(error) => {
                let error = error.kind();
                vec![format!(
                    "{shown} is not there any more ({error}): {RESTART}"
                )]
            }
            Ok(now) if identity(&now) != self.opened => {
                vec![format!("{shown} was replaced by another: {RESTART}")]
            }
            Ok(_) => {
                let sizes = rustix::fs::statvfs(&self.path);
                let flags = sizes.map(|sizes| sizes.f_flag);
                let is_frozen = flags.is_ok_and(|flags| flags.contains(StatVfsMountFlags::RDONLY));
                let warning = is_frozen.then(|| READ_ONLY.to_owned());
                warning.into_iter().collect()
            }
        }
    }
}

const RESTART: &str = "clients have what was opened at the start, until a restart";

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

pub(super) struct Watch {
    shown: Arc<Status>,
    watched: Arc<Mutex<Vec<Arc<ExportWatch>>>>,
}

impl Watch {
    /// Shows these; looks at them if there is a page.
    pub(super) fn start(
        shown: &Arc<Status>,
        served: &[OpenExport],
        has_page: bool,
    ) -> anyhow::Result<Self> {
        let watch = Self {
            shown: shown.clone(),
            watched: Arc::default(),
        };
        watch.show(served);
        if has_page {
            let watched = watch.watched.clone();
            // As long as the process lives: the thread may wait for a disk for ever.
            let look = move || {
                loop {
                    let all = watched.lock().clone();
                    all.iter().for_each(|one| one.look());
                    std::thread::sleep(PERIOD);
                }
            };
            let thread = std::thread::Builder::new().name("exports".to_owned());
            thread.spawn(look).context("cannot start a thread")?;
        }
        Ok(watch)
    }

    pub(super) fn show(&self, served: &[OpenExport]) {
        let statuses = served.iter().map(OpenExport::status).collect();
        self.shown.set_watched(statuses);
        *self.watched.lock() = served.iter().map(|one| one.watch.clone()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_become_of_a_place_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::create_dir(&path).unwrap();
        let watch = ExportWatch::of(&Source::of_path(path.clone()));
        let warnings = || {
            watch.look();
            watch.warnings(true, Instant::now()).concat()
        };
        assert_eq!(warnings(), "");
        std::fs::rename(&path, folder.path().join("old")).unwrap();
        assert!(
            warnings().contains("data is not there any more"),
            "{}",
            warnings()
        );
        std::fs::create_dir(&path).unwrap();
        assert!(
            warnings().contains("data was replaced by another"),
            "{}",
            warnings()
        );
        std::fs::remove_dir(&path).unwrap();
        std::fs::rename(folder.path().join("old"), &path).unwrap();
        assert_eq!(warnings(), "");
    }

    #[test]
    fn a_file_system_that_cannot_be_written_matters_where_it_is_to_be() {
        let watch = ExportWatch::of(&Source::of_path("/".into()));
        let now = Instant::now();
        let place = watch.place.as_ref().unwrap();
        place.found.lock().warnings = vec![READ_ONLY.to_owned()];
        assert_eq!(watch.warnings(true, now), [READ_ONLY]);
        assert!(watch.warnings(false, now).is_empty());
        place.found.lock().looking = Some(now);
        assert!(watch.warnings(false, now + LOOK_MAX).is_empty());
        let late = watch.warnings(false, now + LOOK_MAX * 2);
        assert_eq!(late, ["/ does not answer"]);
    }

    #[test]
    fn what_storage_did_is_said() {
        let watch = ExportWatch::of(&Source::parse("ram:1".as_ref()).unwrap());
        let now = Instant::now();
        watch
            .faults
            .note("/a: Input/output error", SystemTime::now());
        watch.faults.note_stalled(now);
        let warnings = watch.warnings(false, now);
        assert!(warnings[0].contains("does not answer"), "{warnings:?}");
        assert!(
            warnings[1].starts_with("its storage failed 1 call, last "),
            "{warnings:?}"
        );
        assert!(
            warnings[1].ends_with(" ago: /a: Input/output error"),
            "{warnings:?}"
        );
    }
}
