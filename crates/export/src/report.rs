//! Reports to the operator of what storage did. A client is told "I/O error" and no more; where it
//! was, the server says in its log.
//!
//! A bad disk fails many calls, and clients ask again: the log limits them by export. All are
//! counted.

use pagewell_counters::names::STORAGE_ERRORS;

/// Tells of an I/O error in an export, of the object at this place where that is known.
pub fn report(export: &str, place: Option<&str>, text: &str) {
    STORAGE_ERRORS.add(1);
    let shown = place.map_or(String::new(), |place| format!("{place}: "));
    tracing::error!(
        limit = export,
        export,
        path = place,
        "storage: export {export}: {shown}{text}"
    );
}

/// Tells of an I/O error with what the server keeps for itself.
pub fn report_own(subject: &str, text: &str) {
    STORAGE_ERRORS.add(1);
    tracing::error!(limit = subject, "{subject}: {text}");
}
