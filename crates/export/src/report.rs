//! Reports of storage errors to the operator: clients see only "I/O error". The log limits them by
//! export; the counter counts all.

use pagewell_counters::names::STORAGE_ERRORS;

/// `place`: the object's path, if known.
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

/// Of the server's own state.
pub fn report_own(subject: &str, text: &str) {
    STORAGE_ERRORS.add(1);
    tracing::error!(limit = subject, "{subject}: {text}");
}
