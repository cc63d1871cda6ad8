//! Standard output.

use std::io::{self, Write};

use anyhow::Context;
use serde::Serialize;

pub(crate) const OUTPUT: &str = "standard output";

/// Writes `bytes`, and flushes them.
pub(crate) fn print(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .context(OUTPUT)
}

/// Prints a JSON document, as [`json`] writes it.
pub(crate) fn document(document: &impl Serialize) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    json(&mut bytes, document)?;
    print(&bytes)
}

/// Writes a JSON document for programs, which people can read, too.
pub(crate) fn json(mut out: impl Write, document: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, document)?;
    out.write_all(b"\n")
}

pub(crate) fn json_line(mut out: impl Write, document: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut out, document)?;
    out.write_all(b"\n")
}
