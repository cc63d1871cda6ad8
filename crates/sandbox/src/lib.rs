//! What the process gives up before it serves: files outside of what it was started for, TCP
//! connections, system calls that a server never makes, and capabilities.
//!
//! Problem: a defect that lets a client run code of its own in the process gives that client all
//! that the process may do. The kernel can take most of it away beforehand, for good.
//!
//! Rule: [`enter`] is called once, after the command line is understood and before any other
//! thread starts, for a thread inherits all three parts and nothing later could give them to
//! threads that run. What is opened afterwards, sources too, has to be in the [`Plan`].
//!
//! | part | takes away | module |
//! |---|---|---|
//! | Landlock | paths that are not in the plan, TCP, signals to others | [`files`] |
//! | capabilities | all that the plan does not name | [`capabilities`] |
//! | seccomp | system calls that a server never makes | [`system_calls`] |
//!
//! Weaknesses: UDP and Unix sockets with a path are not confined. Requests that io_uring makes are
//! not seen by seccomp (none of its kinds executes, mounts or traces). A process that may open by
//! handle can open every file of a file system of which a directory is exported. Files that were
//! removed and made again at the same path are others, and are refused.

pub mod capabilities;
pub mod files;
pub mod system_calls;

use std::path::PathBuf;

use pagewell_counters::names;
use rustix::thread::CapabilitySet;

/// What the process needs from here on.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Files and directories, with what is below them. What is not there is left out.
    pub paths: Vec<(PathBuf, Access)>,
    /// Objects below these directories are opened by handle, and must be found then although the
    /// kernel does not know their path.
    pub opens_by_handle: bool,
    /// The process makes private mounts of directories and watches file systems.
    pub makes_private_mounts: bool,
    /// TCP ports to listen at; `None`: any.
    pub listen_ports: Option<Vec<u16>>,
    /// TCP connections to others are made.
    pub connects: bool,
    /// Capabilities to keep, of those that there are.
    pub capabilities: CapabilitySet,
}

/// What is done with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read, and listed.
    Read,
    /// Everything but executing.
    Write,
    /// Files are made in this folder, and written.
    Files,
    /// Unix sockets are made in this folder, and removed.
    Sockets,
}

/// Whether a part holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Holds,
    /// Some of it; what does not, and why.
    Partly(String),
    /// Nothing; why.
    Missing(String),
}

impl Part {
    /// What does not hold, and why.
    #[must_use]
    pub fn lack(&self) -> Option<&str> {
        match self {
            Self::Holds => None,
            Self::Partly(lack) | Self::Missing(lack) => Some(lack),
        }
    }
}

/// What holds.
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
    /// A line for each part that does not hold: what, and why.
    #[must_use]
    pub fn lacks(&self) -> Vec<String> {
        let parts = [&self.landlock, &self.system_calls, &self.capabilities];
        let lacks = parts.into_iter().filter_map(Part::lack);
        lacks.map(str::to_owned).collect()
    }
}

/// Gives up all that the plan does not name, in the calling thread and all that it starts. What
/// cannot be given up is in what is returned; gauges show what holds.
pub fn enter(plan: &Plan) -> Standing {
    // Without it the other parts set it, too; it cannot fail where they can be had.
    let _ = rustix::thread::set_no_new_privs(true);
    // The paths are found with all capabilities, and the filter refuses what came before it.
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

/// Notes what holds where nothing is given up.
pub fn stay_out() {
    names::SANDBOX_CAPABILITIES.set(capabilities::count());
}
