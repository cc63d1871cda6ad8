//! One row of a result: a case in one mode and one phase, over all its repeats.
//!
//! Unmeasured values are absent in the JSON, never zero.

use serde_json::{Map, Value, json};

use crate::measure::{Figure, Interval, Quantiles, Usage};
use crate::named;

named! {
    /// Whether the subject of the experiment was off or on.
    pub enum Mode {
        /// As in the report before the change.
        Baseline = "baseline",
        /// As it is here.
        Enhanced = "enhanced",
    }
}

named! {
    /// What the caches held.
    pub enum Phase {
        /// Nothing of what was read.
        Cold = "cold",
        /// More and more.
        Warming = "warming",
        /// All that fits.
        Warm = "warm",
    }
}

/// Requests to a device, as a mean of the repeats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceUse {
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
    /// Requests by issuer.
    pub by_issuer: Vec<(&'static str, u64)>,
}

/// The report's number, on other hardware.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// The number.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
}

/// See the module's text. Optional values are absent until measured.
#[derive(Clone, Debug)]
pub struct Row {
    /// Set by the session.
    pub experiment: &'static str,
    /// What was done.
    pub case: String,
    /// Off or on; none without such a choice.
    pub mode: Option<Mode>,
    /// A setting beside the modes, such as `no elevator`.
    pub variant: Option<String>,
    /// What the caches held.
    pub phase: Phase,
    /// One for each repeat.
    pub seconds: Vec<f64>,
    /// The number for people; without it, the seconds.
    pub figure: Option<Figure>,
    /// Operations of one repeat.
    pub operations: Option<u64>,
    /// Bytes for the application in one repeat.
    pub bytes: Option<u64>,
    /// Requests to the device in one repeat.
    pub device: Option<DeviceUse>,
    /// Bytes copied in one repeat.
    pub copied_bytes: Option<u64>,
    /// What the process in question used in one repeat.
    pub usage: Option<Usage>,
    /// The part of look-ups that hit, 0 to 1.
    pub hit_ratio: Option<f64>,
    /// Mean number of requests at the device.
    pub depth: Option<f64>,
    /// Latencies of operations.
    pub latency: Option<Quantiles>,
    /// The number of the report.
    pub reference: Option<Reference>,
    /// Values of this experiment alone.
    pub x: Map<String, Value>,
}

impl Row {
    /// A row without numbers.
    pub fn new(case: impl Into<String>, mode: impl Into<Option<Mode>>, phase: Phase) -> Self {
        Self {
            experiment: "",
            case: case.into(),
            mode: mode.into(),
            variant: None,
            phase,
            seconds: Vec::new(),
            figure: None,
            operations: None,
            bytes: None,
            device: None,
            copied_bytes: None,
            usage: None,
            hit_ratio: None,
            depth: None,
            latency: None,
            reference: None,
            x: Map::new(),
        }
    }

    /// Adds a value of this experiment alone.
    pub fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.x.insert(name.to_owned(), value.into());
    }

    /// Adds the members of an object that are not null.
    pub fn put_all(&mut self, values: Value) {
        self.x.extend(known(values));
    }

    /// The number for people: the figure, or the seconds.
    pub fn shown(&self) -> Figure {
        let seconds = || Figure::cost("s", self.seconds.clone());
        self.figure.clone().unwrap_or_else(seconds)
    }

    /// The mean of the number for people.
    pub fn mean(&self) -> Option<f64> {
        Some(self.shown().interval()?.mean)
    }

    /// Its object in the document.
    pub fn json(&self) -> Value {
        let row = known(json!({
            "experiment": self.experiment,
            "case": self.case,
            "phase": self.phase.name(),
            "repeats": self.seconds.len(),
            "mode": self.mode.map(Mode::name),
            "seconds": Interval::of(&self.seconds).map(interval),
            "operations": self.operations,
            "bytes": self.bytes,
            "device": self.device.as_ref().map(device),
            "copied_bytes": self.copied_bytes,
            "cpu_seconds": self.usage.map(cpu),
            "context_switches": self.usage.map(|usage| usage.context_switches),
            "hit_ratio": self.hit_ratio,
            "depth": self.depth,
            "latency_us": self.latency.map(latency),
            "reference": self.reference.as_ref().map(reference),
            "x": self.details(),
        }));
        Value::Object(row)
    }

    fn details(&self) -> Value {
        let mut x = self.x.clone();
        x.extend(known(json!({
            "variant": self.variant,
            "figure": self.figure.as_ref().map(Figure::json),
            "seconds_each": self.seconds,
        })));
        Value::Object(x)
    }
}

/// The members of an object that are not null.
pub(crate) fn known(object: Value) -> Map<String, Value> {
    let Value::Object(mut members) = object else {
        return Map::new();
    };
    members.retain(|_, value| !value.is_null());
    members
}

fn reference(found: &Reference) -> Value {
    json!({ "value": found.value, "unit": found.unit })
}

fn interval(found: Interval) -> Value {
    match found.range {
        Some((low, high)) => json!({ "mean": found.mean, "low": low, "high": high }),
        None => json!({ "mean": found.mean }),
    }
}

fn device(used: &DeviceUse) -> Value {
    let by_issuer: Map<String, Value> = used
        .by_issuer
        .iter()
        .map(|(name, count)| ((*name).to_owned(), json!(count)))
        .collect();
    json!({ "requests": used.requests, "bytes": used.bytes, "by_issuer": by_issuer })
}

fn cpu(usage: Usage) -> Value {
    json!({ "user": usage.user.as_secs_f64(), "system": usage.system.as_secs_f64() })
}

fn latency(found: Quantiles) -> Value {
    let micro = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    json!({
        "p50": micro(found.p50),
        "p99": micro(found.p99),
        "p999": micro(found.p999),
        "max": micro(found.max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_absent() {
        let row = Row::new("a case", Mode::Baseline, Phase::Cold).json();
        let names: Vec<_> = row.as_object().unwrap().keys().cloned().collect();
        let least = ["case", "experiment", "mode", "phase", "repeats", "x"];
        assert_eq!(names.len(), least.len(), "{names:?}");
        assert!(least.iter().all(|name| row.get(name).is_some()));
        assert_eq!(row["repeats"], json!(0));
    }

    #[test]
    fn what_was_measured_is_there() {
        let mut row = Row::new("a case", Mode::Enhanced, Phase::Warm);
        row.seconds = vec![1.0, 3.0];
        row.variant = Some("no elevator".to_owned());
        row.device = Some(DeviceUse {
            requests: 7,
            bytes: 14_336,
            by_issuer: vec![("reader", 2), ("read-ahead", 5)],
        });
        row.put("speed", 10);
        let row = row.json();
        assert_eq!(row["seconds"]["mean"], json!(2.0));
        assert!(row["seconds"]["low"].as_f64().unwrap() < -10.0, "t with 1");
        assert_eq!(row["device"]["by_issuer"]["read-ahead"], json!(5));
        assert_eq!(row["x"]["variant"], json!("no elevator"));
        assert_eq!(row["x"]["seconds_each"], json!([1.0, 3.0]));
        assert_eq!(row["x"]["speed"], json!(10));
    }

    #[test]
    fn one_repeat_has_a_mean_and_no_interval() {
        let mut row = Row::new("a case", Mode::Enhanced, Phase::Warm);
        row.seconds = vec![2.0];
        assert_eq!(row.json()["seconds"], json!({ "mean": 2.0 }));
        assert_eq!(row.mean(), Some(2.0));
        row.figure = Some(Figure::rate("MB/s", vec![5.0]));
        assert_eq!(row.mean(), Some(5.0));
    }
}
