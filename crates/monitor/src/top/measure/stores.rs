//! Object stores and web servers.

use pagewell_counters::{Counter, Gauge, names};

use super::{Interval, Measure, Unit};
use crate::metrics::text::money;
use pagewell_base::size;

/// Kinds of requests.
static KINDS: [(&str, &Counter); 5] = [
    ("get", &names::OBJECT_GETS),
    ("head", &names::OBJECT_HEADS),
    ("list", &names::OBJECT_LISTS),
    ("put", &names::OBJECT_PUTS),
    ("delete", &names::OBJECT_DELETES),
];

fn measure(name: &str, value: Option<f64>, unit: Unit, detail: String) -> Measure {
    Measure {
        name: name.to_owned(),
        value,
        unit,
        detail,
        is_warning: false,
    }
}

impl Interval<'_> {
    /// None where no store and no web server was asked.
    pub(super) fn stores(&self) -> Vec<Measure> {
        if KINDS.iter().all(|(_, counter)| self.total(counter) == 0) {
            return Vec::new();
        }
        let mut lines = self.store_requests();
        lines.extend(self.store_cost());
        lines.extend(self.tier());
        lines.extend(self.staging());
        lines.extend(self.guards());
        lines
    }

    fn total(&self, counter: &Counter) -> u64 {
        self.now.counter(counter)
    }

    fn gauge(&self, gauge: &Gauge) -> u64 {
        u64::try_from(self.now.gauge(gauge)).unwrap_or(0)
    }

    fn store_requests(&self) -> Vec<Measure> {
        let change = |counter: &Counter| self.change.counter(counter);
        let kinds = KINDS.map(|(name, counter)| format!("{} {name}", self.total(counter)));
        let requests = KINDS.map(|(_, counter)| change(counter)).iter().sum();
        let answers = change(&names::OBJECT_ANSWERS);
        let time = self.rate(change(&names::OBJECT_ANSWER_NANOSECONDS)) / 1e3;
        let mean = (answers > 0).then(|| time / self.rate(answers));
        let connections = self.total(&names::OBJECT_CONNECTIONS);
        let rate = |counter| Some(self.rate(change(counter)));
        let so_many = |counter| format!("{} since the start", size::display(self.total(counter)));
        let again = self.total(&names::OBJECT_RETRIES);
        let throttled = self.total(&names::OBJECT_THROTTLED);
        vec![
            measure(
                "store requests",
                Some(self.rate(requests)),
                Unit::PerSecond,
                format!("{} since the start", kinds.join(", ")),
            ),
            measure(
                "store answers",
                mean,
                Unit::Microseconds,
                format!("mean until they begin; {connections} connections were made"),
            ),
            measure(
                "store receives",
                rate(&names::OBJECT_RECEIVED_BYTES),
                Unit::BytesPerSecond,
                so_many(&names::OBJECT_RECEIVED_BYTES),
            ),
            measure(
                "store sends",
                rate(&names::OBJECT_SENT_BYTES),
                Unit::BytesPerSecond,
                so_many(&names::OBJECT_SENT_BYTES),
            ),
            measure(
                "store retries",
                rate(&names::OBJECT_RETRIES),
                Unit::PerSecond,
                format!("{again} since the start; {throttled} answers 429 or 503"),
            ),
        ]
    }

    fn store_cost(&self) -> Option<Measure> {
        let prices = &self.now.object_prices;
        let whole = money(prices.cost(self.now)?);
        let an_hour = prices.cost(&self.change).unwrap_or(0.0) / self.seconds * 3600.0;
        let currency = &prices.currency;
        let detail = format!("{currency} at this rate; about {whole} {currency} since the start");
        let detail = format!("{detail} ({})", prices.name);
        Some(measure(
            "store cost",
            Some(an_hour),
            Unit::MoneyPerHour,
            detail,
        ))
    }

    fn tier(&self) -> Option<Measure> {
        let (hits, misses) = (&names::TIER_HITS, &names::TIER_MISSES);
        if self.total(hits) + self.total(misses) == 0 {
            return None;
        }
        let hits = self.change.counter(hits);
        let lookups = hits.saturating_add(self.change.counter(misses));
        let share = (lookups > 0).then(|| self.rate(hits) * 100.0 / self.rate(lookups));
        let detail = format!("of {} pages", self.show(lookups));
        Some(measure("disk tier hits", share, Unit::Percent, detail))
    }

    /// What waits to be sent, and what people have to look at.
    fn staging(&self) -> Vec<Measure> {
        let uploads = self.gauge(&names::OBJECT_UPLOADS);
        let staged = self.gauge(&names::STAGING_BYTES);
        let kept = self.gauge(&names::STAGING_KEPT_FILES);
        let journaled = size::display(self.gauge(&names::STAGING_JOURNALED_BYTES));
        let is_used = self.total(&names::OBJECT_PUTS) + self.total(&names::STAGING_JOURNALED) > 0;
        if !is_used && staged + kept == 0 {
            return Vec::new();
        }
        let files = "files are being sent".to_owned();
        let detail = match kept {
            0 => format!("{journaled} of them journaled; no file is kept"),
            _ => format!("{journaled} of them journaled; FILES KEPT, look at them: {kept}"),
        };
        // Exact up to 2^53.
        let staging = measure("staged", Some(staged as f64), Unit::Bytes, detail);
        vec![
            measure("uploads", Some(uploads as f64), Unit::Count, files),
            Measure {
                is_warning: kept > 0,
                ..staging
            },
        ]
    }

    fn guards(&self) -> Option<Measure> {
        let unguarded = self.gauge(&names::OBJECT_UNGUARDED);
        let guarded = self.gauge(&names::OBJECT_GUARDED);
        let text = match (unguarded, guarded) {
            (0, 0) => return None,
            (0, _) => format!("no written bucket loses changes; guarded: {guarded}"),
            _ => format!("BUCKETS MAY LOSE CHANGES OF OTHERS; guarded: {guarded}"),
        };
        let line = measure("unguarded", Some(unguarded as f64), Unit::Count, text);
        Some(Measure {
            is_warning: unguarded > 0,
            ..line
        })
    }
}
