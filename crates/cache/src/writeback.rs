//! Write-back and commits.

pub(crate) mod commit;
#[cfg(all(test, not(feature = "loom")))]
mod commit_tests;
pub(crate) mod flush;
pub(crate) mod submit;
#[cfg(all(test, not(feature = "loom")))]
mod submit_tests;
