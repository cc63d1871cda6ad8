//! Standard output, written at once.

use std::io::Write;

use anyhow::Context;

/// Writes all of it, to be seen now.
pub(crate) fn print(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .context("standard output")
}
