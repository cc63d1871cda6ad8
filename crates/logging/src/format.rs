//! The forms of a line.
//!
//! | form | a line |
//! |---|---|
//! | plain | `pagewell: MESSAGE` |
//! | text | `2026-01-31T23:59:59.000Z WARN nfsd: MESSAGE` |
//! | JSON | `{"time":…,"level":"warn","crate":"nfsd","message":…` and the fields`}` |
//! | journald | the fields of the journal's own protocol, systemd.journal-fields(7) |
//!
//! Each form is one line, whatever bytes a name has.

use pagewell_base::calendar;
use pagewell_base::line::{one_line, said};
use serde_json::json;
use tracing::Level;

use crate::record::{Record, Value};

/// The form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `pagewell: MESSAGE`.
    #[default]
    Plain,
    /// With time, level and crate.
    Text,
    /// A JSON object for each line.
    Json,
    /// The journal's native fields.
    Journald,
}

/// Longest field, for the sake of pipes and datagrams.
const TEXT_BYTES_MAX: usize = 1024;

/// Longest message.
const MESSAGE_BYTES_MAX: usize = 2048;

/// JSON names that are not fields.
const RESERVED: [&str; 4] = ["time", "level", "crate", "message"];

fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// `2026-01-31T23:59:59.000Z`.
fn time(record: &Record) -> String {
    let seconds = calendar::seconds_text(record.seconds);
    format!("{seconds}.{:03}Z", record.milliseconds)
}

/// The message, or else the fields.
fn message(record: &Record) -> String {
    let message = cut(&record.fields.message, MESSAGE_BYTES_MAX);
    if !message.is_empty() {
        return message.to_owned();
    }
    let all = record.fields.all.iter();
    let all: Vec<String> = all.map(|(name, value)| format!("{name}={value}")).collect();
    cut(&all.join(" "), MESSAGE_BYTES_MAX).to_owned()
}

impl Format {
    /// An event as bytes.
    pub(crate) fn bytes(self, record: &Record) -> Vec<u8> {
        match self {
            Self::Plain => said(&message(record)).into_bytes(),
            Self::Text => text(record).into_bytes(),
            Self::Json => json(record).into_bytes(),
            Self::Journald => journal(record),
        }
    }
}

fn text(record: &Record) -> String {
    let (time, message) = (time(record), one_line(&message(record)));
    format!("{time} {} {}: {message}\n", record.level, record.origin)
}

fn json(record: &Record) -> String {
    let level = record.level.as_str().to_ascii_lowercase();
    let mut line = format!(
        "{{\"time\":{},\"level\":{},\"crate\":{},\"message\":{}",
        json!(time(record)),
        json!(level),
        json!(record.origin),
        json!(message(record))
    );
    for (name, value) in &record.fields.all {
        if RESERVED.contains(name) {
            continue;
        }
        let value = match value {
            Value::Text(text) => json!(cut(text, TEXT_BYTES_MAX)),
            Value::Natural(number) => json!(number),
            Value::Integer(number) => json!(number),
            Value::Number(number) => json!(number),
            Value::Flag(flag) => json!(flag),
        };
        line += &format!(",{}:{value}", json!(name));
    }
    line + "}\n"
}

/// Severities of syslog(3).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// The journal's native protocol: `NAME=VALUE` and a newline; a value with newlines has the name, a
/// newline, its length (8 bytes, little-endian), itself and a newline.
fn journal(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |name: &str, value: &str| {
        bytes.extend_from_slice(name.as_bytes());
        if value.contains('\n') {
            bytes.push(b'\n');
            bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        } else {
            bytes.push(b'=');
        }
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(b'\n');
    };
    put("MESSAGE", &message(record));
    put("PRIORITY", &priority(record.level).to_string());
    put("SYSLOG_IDENTIFIER", "pagewell");
    put("PAGEWELL_CRATE", &record.origin);
    for (name, value) in &record.fields.all {
        let name: String = name
            .chars()
            .map(|character| match character {
                'a'..='z' | 'A'..='Z' | '0'..='9' => character.to_ascii_uppercase(),
                _ => '_',
            })
            .collect();
        let value = value.to_string();
        put(&format!("PAGEWELL_{name}"), cut(&value, TEXT_BYTES_MAX));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Fields;

    fn record() -> Record {
        Record {
            seconds: 951_868_800,
            milliseconds: 7,
            level: Level::WARN,
            origin: "nfsd".to_owned(),
            fields: Fields {
                message: "storage: export /: at \"5\":\nEIO".to_owned(),
                limit: Some("/".to_owned()),
                all: vec![
                    ("export", Value::Text("/a\nb".to_owned())),
                    ("microseconds", Value::Natural(12)),
                    ("is_late", Value::Flag(true)),
                    ("level", Value::Text("no level".to_owned())),
                ],
            },
        }
    }

    fn shown(format: Format) -> String {
        String::from_utf8(format.bytes(&record())).unwrap()
    }

    #[test]
    fn texts_are_one_line() {
        let plain = "pagewell: storage: export /: at \"5\":\\nEIO\n";
        assert_eq!(shown(Format::Plain), plain);
        let text = "2000-03-01T00:00:00.007Z WARN nfsd: storage: export /: at \"5\":\\nEIO\n";
        assert_eq!(shown(Format::Text), text);
    }

    #[test]
    fn json_has_the_fields() {
        let line = shown(Format::Json);
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.starts_with("{\"time\":\"2000-03-01T00:00:00.007Z\",\"level\":\"warn\","));
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        let expected = json!({
            "time": "2000-03-01T00:00:00.007Z",
            "level": "warn",
            "crate": "nfsd",
            "message": "storage: export /: at \"5\":\nEIO",
            "export": "/a\nb",
            "microseconds": 12,
            "is_late": true,
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn the_journal_has_fields_of_its_own() {
        let bytes = Format::Journald.bytes(&record());
        let begin = b"MESSAGE\n\x1e\0\0\0\0\0\0\0storage: export /: at \"5\":\nEIO\nPRIORITY=4\n";
        assert!(
            bytes.starts_with(begin),
            "{:?}",
            String::from_utf8_lossy(&bytes)
        );
        let rest = String::from_utf8_lossy(&bytes);
        assert!(rest.contains("\nPAGEWELL_CRATE=nfsd\n"));
        assert!(rest.contains("\nPAGEWELL_MICROSECONDS=12\nPAGEWELL_IS_LATE=true\n"));
        assert!(rest.contains("PAGEWELL_EXPORT\n\x04\0\0\0\0\0\0\0/a\nb\n"));
    }

    #[test]
    fn an_event_without_a_message_shows_its_fields() {
        let mut record = record();
        record.fields.message = String::new();
        record.fields.all.truncate(2);
        let plain = String::from_utf8(Format::Plain.bytes(&record)).unwrap();
        assert_eq!(plain, "pagewell: export=/a\\nb microseconds=12\n");
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let mut record = record();
        record.fields.message = "ä".repeat(5000);
        record.fields.all = vec![("path", Value::Text("ü".repeat(5000)))];
        for format in [Format::Plain, Format::Text, Format::Json, Format::Journald] {
            assert!(format.bytes(&record).len() < 4096, "{format:?}");
        }
    }
}
