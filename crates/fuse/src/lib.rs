//! Mounts of any source through FUSE: the front whose client is Linux itself.
//!
//! ```text
//!   program ──> kernel: names, attributes, pages ──/dev/fuse──> reader ──> FileSystem
//!                                                                  └─would wait─> worker
//! ```
//!
//! The kernel keeps names, attributes and pages for as long as the source says
//! ([`pagewell_fs::Coherence`]), and judges permissions from the attributes
//! (`default_permissions`). The thread that receives a request answers it, or hands it to a worker,
//! so that one thread always receives (`dispatch`). A program that is killed while it waits ends
//! (`blocked`).
//!
//! Reading order: [`mount()`], `front::service` (requests), `front` (their way to an answer),
//! `opening`, `writing`, `privileges`, `listing`, `nodes` and `handles` (the kernel's numbers),
//! `dispatch` and `blocked` (what waits), `kernel_view` and `negotiation` (what the kernel keeps).
//!
//! Decided, with reasons:
//! - *No late writing by the kernel* unless asked for: other clients of the source would not see
//!   such pages, and no call could report an error. Writes of up to 1 MiB go through at once.
//! - *Locks stay in the kernel*: they exclude programs of this machine only.
//! - *No splicing*: the kernel copies the bytes of a reply once, from the cache (`reply`), which
//!   splicing would rob of its pages. Files of directories are passed through, as root.
//! - *No io_uring transport*: the crate `fuser` has none, and kernels have it off by default.
//!
//! Known weaknesses, of the crate `fuser` 0.18: a request that sets a time some 292 thousand
//! million years ago ends the thread that received it (only users of the mount can); it answers
//! requests to interrupt with "not supported", so only a kill ends a program that waits.

mod attach;
mod blocked;
mod buffer_pool;
mod busy;
mod caller;
mod convert;
mod dispatch;
mod front;
mod handles;
mod invalidation;
mod kernel_prefill;
mod kernel_view;
mod listing;
mod mount;
mod mounts;
mod negotiation;
mod nodes;
mod notify;
mod opening;
mod options;
mod passthrough;
mod privileges;
mod pruning;
mod read_around;
mod reply;
mod unmount;
mod writing;

pub use busy::{User, users_of};
pub use convert::Appearance;
pub use mount::{MountError, Mounted, mount};
pub use mounts::{Entry, mounted_on};
pub use options::Options;
pub use unmount::{UnmountError, unmount, unmount_entry};
