//! What a process says of itself beside its counters: what it is, whether it is ready, and what it
//! serves.

use std::sync::Arc;

use pagewell_base::sync::Mutex;
use serde::Serialize;

/// Kept by the process, read by those that ask.
pub struct Status(Mutex<State>);

/// What is wrong with an export at the moment, a line each. To be had without waiting.
pub type Warnings = Box<dyn Fn() -> Vec<String> + Send + Sync>;

struct State {
    view: View,
    /// More warnings, of the exports of the view in their order.
    warnings: Arc<Vec<Warnings>>,
}

/// What is true at a moment; a part of `/stat.json`.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// `serve` or `mount`.
    pub process: &'static str,
    /// Whether clients can use it.
    pub ready: bool,
    /// What it serves or mounts.
    pub exports: Vec<ExportStatus>,
    /// What each client may have, in words; empty without limits.
    pub client_limits: String,
    /// What an administrator should know, a line each.
    pub notes: Vec<String>,
}

/// One export, or one mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExportStatus {
    /// The path that clients mount, or the place of a mount.
    pub name: String,
    /// What it is, such as a directory and its path.
    pub source: String,
    /// Whether nothing can be changed.
    pub read_only: bool,
    /// What its clients may have together, in words; empty without limits.
    pub limits: String,
    /// What is wrong with it, a line each.
    pub warnings: Vec<String>,
}

impl Status {
    /// Of a process of this kind that is not ready.
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

    /// Says whether clients can use it.
    pub fn set_ready(&self, ready: bool) {
        self.0.lock().view.ready = ready;
    }

    /// Says what it serves, in place of what was said before.
    pub fn set_exports(&self, exports: Vec<ExportStatus>) {
        let mut state = self.0.lock();
        state.view.exports = exports;
        state.warnings = Arc::default();
    }

    /// The same of exports of which it is found out, whenever that is asked, what is wrong with
    /// them.
    pub fn set_watched(&self, exports: Vec<(ExportStatus, Warnings)>) {
        let (exports, warnings) = exports.into_iter().unzip();
        let mut state = self.0.lock();
        state.view.exports = exports;
        state.warnings = Arc::new(warnings);
    }

    /// Says what each client may have, in place of what was said before.
    pub fn set_client_limits(&self, limits: String) {
        self.0.lock().view.client_limits = limits;
    }

    /// Says what an administrator should know, in place of what was said before.
    pub fn set_notes(&self, notes: Vec<String>) {
        self.0.lock().view.notes = notes;
    }

    /// Whether clients can use it.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.lock().view.ready
    }

    /// All of it.
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
