//! An event as it is written.

use std::fmt;

use tracing::Level;
use tracing::field::{Field, Visit};

/// The field for the subject of a limited event; not shown.
const LIMIT: &str = "limit";
const MESSAGE: &str = "message";

/// A field's value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Natural(u64),
    Integer(i64),
    Number(f64),
    Flag(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => formatter.write_str(text),
            Self::Natural(number) => number.fmt(formatter),
            Self::Integer(number) => number.fmt(formatter),
            Self::Number(number) => number.fmt(formatter),
            Self::Flag(flag) => flag.fmt(formatter),
        }
    }
}

/// Message and fields of an event or a span.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fields {
    pub(crate) message: String,
    /// The subject of a limited event.
    pub(crate) limit: Option<String>,
    pub(crate) all: Vec<(&'static str, Value)>,
}

impl Fields {
    /// Adds those of `others` that are missing.
    pub(crate) fn complete(&mut self, others: &Self) {
        for (name, value) in &others.all {
            if self.all.iter().all(|(known, _)| known != name) {
                self.all.push((name, value.clone()));
            }
        }
    }

    fn put(&mut self, field: &Field, value: Value) {
        match field.name() {
            MESSAGE => self.message = value.to_string(),
            LIMIT => self.limit = Some(value.to_string()),
            name => match self.all.iter_mut().find(|(known, _)| *known == name) {
                Some((_, old)) => *old = value,
                None => self.all.push((name, value)),
            },
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, Value::Text(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::Text(value.to_owned()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::Natural(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::Integer(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::Number(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::Flag(value));
    }
}

/// An event.
pub(crate) struct Record {
    /// Since 1970.
    pub(crate) seconds: i64,
    pub(crate) milliseconds: u32,
    pub(crate) level: Level,
    /// The crate, as users name it.
    pub(crate) origin: String,
    pub(crate) fields: Fields,
}
