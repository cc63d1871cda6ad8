//! A whole result for programs.

use serde_json::{Value, json};

use super::session::Session;
use crate::measure::Environment;

/// The version of the form of documents.
pub const SCHEMA: u32 = 1;

/// The document of a run: `schema`, `environment`, `rows`, and besides them `verdicts`, `notes`
/// and `failures`.
#[must_use]
pub fn document(environment: &Environment, session: &Session) -> Value {
    let rows: Vec<Value> = session.rows().iter().map(super::Row::json).collect();
    let verdicts = session.verdicts().iter().map(|verdict| {
        json!({
            "experiment": verdict.experiment,
            "pass": verdict.pass,
            "what": verdict.what,
        })
    });
    let notes = session.notes();
    let notes = notes.map(|(name, text)| json!({ "experiment": name, "text": text }));
    json!({
        "schema": SCHEMA,
        "environment": environment.json(),
        "rows": rows,
        "verdicts": verdicts.collect::<Vec<_>>(),
        "notes": notes.collect::<Vec<_>>(),
        "failures": session.failures(),
    })
}
