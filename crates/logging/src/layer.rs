//! The receiver of all crates' events.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pagewell_base::sync::{Mutex, RwLock};
use tracing::callsite::Identifier;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record as Values};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::AUDIT;
use crate::audit::AuditFile;
use crate::filter::{Filter, crate_of};
use crate::format::Format;
use crate::limiter::Limiter;
use crate::output::{Losses, Output};
use crate::record::{Fields, Record, Value};

/// Output and form.
struct Destination {
    output: Output,
    format: Format,
    audit_file: Option<AuditFile>,
}

/// The log of the program.
pub(crate) struct Log {
    filter: RwLock<Filter>,
    destination: RwLock<Destination>,
    limiter: Mutex<Limiter<Identifier>>,
    losses: Losses,
}

impl Log {
    /// Plain lines to `output`.
    pub(crate) fn new(output: Output) -> Self {
        Self {
            filter: RwLock::new(Filter::default()),
            destination: RwLock::new(Destination {
                output,
                format: Format::Plain,
                audit_file: None,
            }),
            limiter: Mutex::default(),
            losses: Losses::default(),
        }
    }

    pub(crate) fn set_output(&self, output: Output, format: Format, audit_file: Option<AuditFile>) {
        *self.destination.write() = Destination {
            output,
            format,
            audit_file,
        };
    }

    pub(crate) fn set_audit_file(&self, audit_file: Option<AuditFile>) {
        let before = std::mem::replace(&mut self.destination.write().audit_file, audit_file);
        if let Some(before) = before {
            before.finish();
        }
    }

    pub(crate) fn set_filter(&self, filter: Filter) {
        *self.filter.write() = filter;
        // Call sites cache the filter's answer.
        tracing::callsite::rebuild_interest_cache();
    }

    pub(crate) fn format(&self) -> Format {
        self.destination.read().format
    }

    pub(crate) fn finish(&self) {
        if let Some(file) = &self.destination.read().audit_file {
            file.finish();
        }
    }

    fn contains(&self, metadata: &Metadata<'_>) -> bool {
        self.filter.read().level_of(metadata.target()) >= *metadata.level()
    }

    /// Whether to write an event; adds the number of hidden ones before it.
    fn admit(&self, kind: Identifier, fields: &mut Fields) -> bool {
        let Some(subject) = fields.limit.as_deref() else {
            return true;
        };
        let admitted = self.limiter.lock().admit(kind, subject, Instant::now());
        let Some(hidden) = admitted else {
            return false;
        };
        if hidden > 0 {
            fields.message += &format!(" ({hidden} more were not shown)");
            fields.all.push(("hidden", Value::Natural(hidden)));
        }
        true
    }

    fn write(&self, target: &str, record: &Record) {
        let destination = self.destination.read();
        if target == AUDIT
            && let Some(file) = &destination.audit_file
        {
            file.write(Format::Json.bytes(record));
            return;
        }
        let (output, format) = (&destination.output, destination.format);
        output.write(&format.bytes(record), &self.losses);
        if let Some(lines) = self.losses.over() {
            let message = format!("{lines} lines were lost: nothing read the log");
            let fields = Fields {
                message,
                all: vec![("lost", Value::Natural(lines))],
                limit: None,
            };
            let lost = record_now(Level::WARN, "logging", fields);
            output.write(&format.bytes(&lost), &self.losses);
        }
    }
}

fn record_now(level: Level, origin: &str, fields: Fields) -> Record {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    Record {
        seconds: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        milliseconds: now.subsec_millis(),
        level,
        origin: origin.to_owned(),
        fields,
    }
}

/// The log as a subscriber's layer.
pub(crate) struct LogLayer(pub(crate) Arc<Log>);

impl<S> Layer<S> for LogLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        // Valid until the filter changes, which rebuilds the cache.
        if self.0.contains(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.0.contains(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.0.filter.read().highest())
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Values<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        if !self.0.admit(metadata.callsite(), &mut fields) {
            return;
        }
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(outer) = span.extensions().get::<Fields>() {
                fields.complete(outer);
            }
        }
        let target = metadata.target();
        let record = record_now(*metadata.level(), &crate_of(target), fields);
        self.0.write(target, &record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;
    use tracing_subscriber::layer::SubscriberExt;

    /// A log that a test reads, with this filter and format.
    fn with_log(filter: &str, format: Format, said: impl FnOnce(&Log)) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let reader = UnixDatagram::bind(&path).unwrap();
        let socket = UnixDatagram::unbound().unwrap();
        let log = Arc::new(Log::new(Output::Journal(socket, path.clone())));
        log.destination.write().format = format;
        log.set_filter(Filter::parse(filter).unwrap());
        let subscriber = tracing_subscriber::registry().with(LogLayer(log.clone()));
        // Few lines have a place in the socket.
        let read = std::thread::spawn(move || {
            let mut lines = Vec::new();
            let mut buffer = [0; 8192];
            while let Ok(length @ 1..) = reader.recv(&mut buffer) {
                lines.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
            }
            lines
        });
        tracing::subscriber::with_default(subscriber, || said(&log));
        let end = UnixDatagram::unbound().unwrap();
        end.send_to(&[], &path).unwrap();
        read.join().unwrap()
    }

    #[test]
    fn a_line_has_the_fields_of_the_spans_around_it() {
        let lines = with_log("debug", Format::Json, |_| {
            let span = tracing::debug_span!("call", client = "10.0.0.1", result = "old");
            span.record("result", "new");
            let _inside = span.entered();
            tracing::warn!(client = "10.0.0.2", bytes = 5_u64, "text {}", 1);
        });
        assert_eq!(lines.len(), 1);
        let value: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!(value["message"], "text 1");
        assert_eq!(value["crate"], "logging");
        assert_eq!(value["client"], "10.0.0.2");
        assert_eq!(value["result"], "new");
        assert_eq!(value["bytes"], 5);
    }

    #[test]
    fn what_clients_cause_is_limited_by_subject() {
        let lines = with_log("info", Format::Plain, |_| {
            for number in 0..101 {
                let client = if number < 100 { "a" } else { "b" };
                tracing::warn!(limit = %client, "refused: {client}");
            }
            tracing::warn!("another place");
        });
        assert_eq!(lines.len(), 12);
        assert_eq!(lines[9], "pagewell: refused: a\n");
        assert_eq!(lines[10], "pagewell: refused: b (90 more were not shown)\n");
        assert_eq!(lines[11], "pagewell: another place\n");
    }

    #[test]
    fn the_filter_can_be_changed() {
        let lines = with_log("error", Format::Plain, |log| {
            let say = |text: &str| tracing::info!("{text}");
            say("not shown");
            log.set_filter(Filter::parse("logging=info,error").unwrap());
            say("shown");
            log.set_filter(Filter::parse("info,logging=off").unwrap());
            say("not shown either");
        });
        assert_eq!(lines, ["pagewell: shown\n"]);
    }

    #[test]
    fn the_audit_log_has_a_file_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit");
        let lines = with_log("error", Format::Plain, |log| {
            tracing::info!(target: AUDIT, name = "a", "in the log");
            let file = AuditFile::start(&path).unwrap();
            log.set_audit_file(Some(file));
            tracing::info!(target: AUDIT, name = "b", "in the file");
            log.set_audit_file(None);
            tracing::info!(target: AUDIT, name = "c", "in the log again");
        });
        assert_eq!(
            lines,
            ["pagewell: in the log\n", "pagewell: in the log again\n"]
        );
        let written = std::fs::read_to_string(&path).unwrap();
        let value: serde_json::Value = serde_json::from_str(&written).unwrap();
        assert_eq!(
            (&value["name"], &value["crate"]),
            (&"b".into(), &"audit".into())
        );
    }
}
