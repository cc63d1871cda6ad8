//! The log in the configuration: the table `[log]`, the command line, and the variable.
//!
//! A reload changes levels, the time of slow calls and the audit log, not the form of the lines.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pagewell_base::duration;
use pagewell_logging::{Audit, Filter, Format};
use pagewell_nfsd::watch_calls;
use serde_json::{Value, json};

use super::arguments::ServeArguments;
use super::picker::{Origin, Picker, at, some, word_of};
use super::table::{At, Table, text, word};
use crate::log_arguments::{self, FORMATS, from_variable, parse_audit};

/// Keys of `[log]`.
#[derive(Debug, Default)]
pub(crate) struct LogKeys {
    levels: Option<At<String>>,
    format: Option<At<Format>>,
    slow: Option<At<Duration>>,
    audit: Option<At<Audit>>,
}

#[derive(Clone, Debug)]
pub(crate) struct LogSettings {
    /// Text for [`Filter::parse`]; none: the usual levels.
    pub(crate) levels: Option<String>,
    pub(crate) format: Format,
    /// Calls that take as long as this are logged.
    pub(crate) slow: Option<Duration>,
    pub(crate) audit: Option<Audit>,
}

impl LogKeys {
    /// Takes all keys of the table; relative paths are in `directory`.
    pub(super) fn take(mut table: Table<'_>, directory: &Path) -> Self {
        let levels = |text: &str| Filter::parse(text).map(|_| text.to_owned());
        let audit = |text: &str| {
            parse_audit(text).map(|audit| match audit {
                Audit::File(path) => Audit::File(directory.join(path)),
                Audit::Log => Audit::Log,
            })
        };
        let keys = Self {
            levels: table.take("levels", text(levels)),
            format: table.take("format", word(&FORMATS)),
            slow: table.take("slow", text(duration::parse)),
            audit: table.take("audit", text(audit)),
        };
        table.end();
        keys
    }
}

impl LogSettings {
    /// The command line wins over the variable, that over the file. An error is one of the
    /// variable.
    pub(super) fn resolve(
        arguments: &ServeArguments,
        keys: Option<&LogKeys>,
        picker: &mut Picker<'_>,
    ) -> anyhow::Result<Self> {
        let (log, calls) = (&arguments.log, &arguments.call_log);
        let of_variable = if log.levels.is_none() {
            from_variable()?
        } else {
            None
        };
        let levels = if let Some(text) = of_variable {
            picker.note("levels", json!(text), Origin::Variable);
            Some(text)
        } else {
            let levels = (
                log.levels.clone().map(Some),
                keys.and_then(|keys| some(&keys.levels)),
            );
            picker.pick("levels", levels, None, |text| json!(text))
        };
        let format = (log.format, keys.and_then(|keys| at(&keys.format)));
        let format = picker.pick("format", format, Format::Text, |one| word_of(&FORMATS, one));
        let slow = (calls.slow.map(Some), keys.and_then(|keys| some(&keys.slow)));
        let slow = picker.pick("slow", slow, None, slow_shown);
        let audit = (
            calls.audit.clone().map(Some),
            keys.and_then(|keys| some(&keys.audit)),
        );
        let audit = picker.pick("audit", audit, None, audit_shown);
        Ok(Self {
            levels,
            format,
            slow,
            audit,
        })
    }

    /// Starts the log; with `audits`, calls to exports with an audit log go there.
    pub(crate) fn begin(&self, audits: bool) -> anyhow::Result<()> {
        log_arguments::begin(self.levels.as_deref(), self.format, self.audit.clone())?;
        watch_calls(self.slow, audits);
        Ok(())
    }

    pub(crate) fn audit_file(&self) -> Option<&PathBuf> {
        match &self.audit {
            Some(Audit::File(path)) => Some(path),
            Some(Audit::Log) | None => None,
        }
    }
}

fn slow_shown(slow: &Option<Duration>) -> Value {
    // The configuration file takes this with its unit.
    json!(slow.map(|time| format!("{time:?}").replace('µ', "u")))
}

fn audit_shown(audit: &Option<Audit>) -> Value {
    match audit {
        None => Value::Null,
        Some(Audit::Log) => json!("log"),
        Some(Audit::File(path)) => json!(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_they_are_read() {
        for text in ["0s", "80us", "1.5ms", "100ms", "1h"] {
            let time = duration::parse(text).unwrap();
            let shown = slow_shown(&Some(time));
            assert_eq!(
                duration::parse(shown.as_str().unwrap()),
                Ok(time),
                "{shown}"
            );
        }
    }
}
