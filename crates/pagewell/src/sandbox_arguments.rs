//! What `serve` takes about its sandbox.

use std::path::PathBuf;

use clap::Args;

use crate::values::choice;

/// Options of what serves.
#[derive(Clone, Debug, Args)]
pub(crate) struct SandboxArguments {
    /// Whether the process gives up, before it serves, what its exports do not need: other files,
    /// TCP connections, programs, mounts, capabilities
    /// [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = choice(&MODES))]
    pub(crate) sandbox: Option<Mode>,
    /// Let exports below this directory be added while the server runs; repeatable
    #[arg(long, value_name = "DIR")]
    pub(crate) sandbox_allow: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As much as the system can do.
    #[default]
    Auto,
    Off,
    /// All of it, or no server.
    Require,
}

pub(crate) const MODES: [(&str, Mode, &str); 3] = [
    (
        "auto",
        Mode::Auto,
        "What this system can do; what it cannot is said",
    ),
    ("off", Mode::Off, "Nothing is given up"),
    (
        "require",
        Mode::Require,
        "All of it, or the server does not start",
    ),
];
