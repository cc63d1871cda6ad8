//! A process' description of itself besides its counters.

use std::sync::Arc;

use pagewell_base::sync::Mutex;
use serde::Serialize;

/// Set by the process, read by askers.
pub struct Status(Mutex<State>);

/// The current faults of an export, a line each. Must not wait.
pub type Warnings = Box<dyn Fn() -> Vec<String> + Send + Sync>;

struct State {
    view: View,
    /// Further warnings, in the order of the view's exports.
    warnings: Arc<Vec<Warnings>>,
}

/// The current state; a part of `/stat.json`.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// `serve` or `mount`.
    pub process: &'static str,
    /// Clients can use it.
    pub ready: bool,
    /// Its exports or mounts.
    pub exports: Vec<ExportStatus>,
    /// The limits of each client, in words; empty without limits.
    pub client_limits: String,
    /// Notes for the administrator, a line each.
    pub notes: Vec<String>,
}

/// An export or a mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExportStatus {
    /// The path that clients mount, or the place of a mount.
    pub name: String,
    /// Its kind and place, such as a directory and its path.
    pub source: String,
    /// It cannot be changed.
    pub read_only: bool,
    /// The same for all its clients together.
    pub limits: String,
    /// Faults, a line each.
    pub warnings: Vec<String>,
}

impl Status {
    /// A process of this kind that is not ready.
    #[must_use]
    pub fn new(process: &'static str) -> Self {
        let view = View {
            process,
            ready: false,
            exports: Vec::new(),
            client_limits: String::new(),
            notes: Vec::new(),
        };
        Self(Mutex::new(State {
            view,
            warnings: Arc::default(),
        }))
    }

    /// Sets whether clients can use it.
    pub fn set_ready(&self, ready: bool) {
        self.0.lock().view.ready = ready;
    }

    /// Replaces the exports.
    pub fn set_exports(&self, exports: Vec<ExportStatus>) {
        let mut state = self.0.lock();
        state.view.exports = exports;
        state.warnings = Arc::default();
    }

    /// Replaces the exports, with warnings that are read at each request.
    pub fn set_watched(&self, exports: Vec<(ExportStatus, Warnings)>) {
        let (exports, warnings) = exports.into_iter().unzip();
        let mut state = self.0.lock();
        state.view.exports = exports;
        state.warnings = Arc::new(warnings);
    }

    /// Replaces the limits of clients.
    pub fn set_client_limits(&self, limits: String) {
        self.0.lock().view.client_limits = limits;
    }

    /// Replaces the notes.
    pub fn set_notes(&self, notes: Vec<String>) {
        self.0.lock().view.notes = notes;
    }

    /// Whether clients can use it.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.lock().view.ready
    }

    /// The current state.
    #[must_use]
    pub fn view(&self) -> View {
        let (mut view, warnings) = {
            let state = self.0.lock();
            (state.view.clone(), state.warnings.clone())
        };
        for (export, more) in view.exports.iter_mut().zip(warnings.iter()) {
            export.warnings.extend(more());
        }
        view
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn warnings_are_those_of_the_moment() {
        let export = |name: &str| ExportStatus {
            name: name.to_owned(),
            source: String::new(),
            read_only: false,
            limits: String::new(),
            warnings: vec!["always".to_owned()],
        };
        let is_wrong = Arc::new(AtomicBool::new(false));
        let flag = is_wrong.clone();
        let wrong = move || match flag.load(Ordering::Relaxed) {
            true => vec!["now".to_owned()],
            false => Vec::new(),
        };
        let status = Status::new("serve");
        let none: Warnings = Box::new(Vec::new);
        status.set_watched(vec![(export("/a"), none), (export("/b"), Box::new(wrong))]);
        let warnings = |at: usize| status.view().exports[at].warnings.clone();
        assert_eq!(
            (warnings(0), warnings(1)),
            (warnings(1), vec!["always".to_owned()])
        );
        is_wrong.store(true, Ordering::Relaxed);
        assert_eq!(
            (warnings(0).len(), warnings(1)),
            (1, vec!["always".into(), "now".into()])
        );
        status.set_exports(vec![export("/b")]);
        assert_eq!(warnings(0), ["always"]);
    }
}
