//! What a process says of itself beside its counters: what it is, whether it is ready, and what it
//! serves.

use pagewell_base::sync::Mutex;
use serde::Serialize;

/// Kept by the process, read by those that ask.
pub struct Status(Mutex<View>);

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
        Self(Mutex::new(View {
            process,
            ready: false,
            exports: Vec::new(),
            client_limits: String::new(),
            notes: Vec::new(),
        }))
    }

    /// Says whether clients can use it.
    pub fn set_ready(&self, ready: bool) {
        self.0.lock().ready = ready;
    }

    /// Says what it serves, in place of what was said before.
    pub fn set_exports(&self, exports: Vec<ExportStatus>) {
        self.0.lock().exports = exports;
    }

    /// Says what each client may have, in place of what was said before.
    pub fn set_client_limits(&self, limits: String) {
        self.0.lock().client_limits = limits;
    }

    /// Says what an administrator should know, in place of what was said before.
    pub fn set_notes(&self, notes: Vec<String>) {
        self.0.lock().notes = notes;
    }

    /// Whether clients can use it.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.lock().ready
    }

    /// All of it.
    #[must_use]
    pub fn view(&self) -> View {
        self.0.lock().clone()
    }
}
