//! What the process gives up before it serves, so that code injected into it can do little.
//!
//! [`enter`] runs once, before any other thread starts: threads inherit all three parts, and
//! running threads cannot get them later. Everything opened afterwards must be in the [`Plan`].
//!
//! | part | takes away | module |
//! |---|---|---|
//! | Landlock | paths outside the plan, TCP, signals to other processes | [`files`] |
//! | capabilities | all outside the plan | [`capabilities`] |
//! | seccomp | system calls that a server never makes | [`system_calls`] |
//!
//! Weaknesses: UDP and Unix sockets with a path are not confined. Seccomp does not see requests of
//! io_uring (none executes, mounts or traces). A process that opens by handle can open every file
//! of a file system with an exported directory. A file replaced at its path is refused.

pub mod capabilities;
pub mod files;
pub mod system_calls;

use std::path::PathBuf;

use pagewell_counters::names;
use rustix::thread::CapabilitySet;

/// What the process needs from here on.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Files and directories with their contents; missing ones are ignored.
    pub paths: Vec<(PathBuf, Access)>,
    /// Objects below these directories are opened by handle; the kernel may not know their path.
    pub opens_by_handle: bool,
    /// Of directories; also watches file systems.
    pub makes_private_mounts: bool,
    /// `None`: any.
    pub listen_ports: Option<Vec<u16>>,
    /// Opens TCP connections.
    pub connects: bool,
    /// To keep, if held.
    pub capabilities: CapabilitySet,
}

/// The use of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read and list.
    Read,
    /// Everything except executing.
    Write,
    /// Create and write files in this folder.
    Files,
    /// Create and remove Unix sockets in this folder.
    Sockets,
}

/// How much of a part the kernel enforces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All.
    Holds,
    /// Some; the rest, and why.
    Partly(String),
    /// Nothing, and why.
    Missing(String),
}

impl Part {
    /// The missing part, and why.
    #[must_use]
    pub fn lack(&self) -> Option<&str> {
        match self {
            Self::Holds => None,
            Self::Partly(lack) | Self::Missing(lack) => Some(lack),
        }
    }
}

/// What the kernel enforces.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Files and TCP.
    pub landlock: Part,
    /// System calls.
    pub system_calls: Part,
    /// Capabilities.
    pub capabilities: Part,
}

impl Standing {
    /// A line for each missing part.
    #[must_use]
    pub fn lacks(&self) -> Vec<String> {
        let parts = [&self.landlock, &self.system_calls, &self.capabilities];
        let lacks = parts.into_iter().filter_map(Part::lack);
        lacks.map(str::to_owned).collect()
    }
}

/// Gives up all that the plan does not name, for the calling thread and its children.
pub fn enter(plan: &Plan) -> Standing {
    // Cannot fail where the other parts, which need it, exist.
    let _ = rustix::thread::set_no_new_privs(true);
    // Opening the paths needs the capabilities, and the filter refuses the calls of both.
    let landlock = files::confine(plan);
    let (capabilities, kept) = capabilities::keep(plan.capabilities);
    names::SANDBOX_CAPABILITIES.set(kept);
    let system_calls = system_calls::refuse(plan.makes_private_mounts);
    Standing {
        landlock,
        system_calls,
        capabilities,
    }
}

/// Of a process that gives nothing up.
pub fn stay_out() {
    names::SANDBOX_CAPABILITIES.set(capabilities::count());
}
