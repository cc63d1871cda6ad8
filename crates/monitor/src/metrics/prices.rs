//! What requests to object stores cost, about.
//!
//! Weakness: prices of kept bytes, and steps of prices, are not known here. Requests to web servers
//! are counted with those to stores: in a process of both the estimate is too high.

use std::sync::OnceLock;

use pagewell_counters::{Counter, names};
use serde::{Deserialize, Serialize};

use super::snapshot::Snapshot;

/// Bytes for which a store asks a price.
const GIGABYTE: f64 = 1e9;
const REQUESTS: f64 = 1e3;

/// What a store asks for requests and for bytes that leave it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// Whose they are, or that they were configured.
    pub name: String,
    /// Such as `USD`.
    pub currency: String,
    /// For 1,000 GET.
    pub get: f64,
    /// For 1,000 HEAD.
    pub head: f64,
    /// For 1,000 pages of listings.
    pub list: f64,
    /// For 1,000 PUT, parts and what begins and ends uploads.
    pub put: f64,
    /// For 1,000 DELETE.
    pub delete: f64,
    /// For 10^9 bytes that come.
    pub download: f64,
}

impl Default for Prices {
    /// One well-known store, from outside its network.
    fn default() -> Self {
        Self {
            name: "Amazon S3 Standard, us-east-1, as listed in 2024".to_owned(),
            currency: "USD".to_owned(),
            get: 0.0004,
            head: 0.0004,
            list: 0.005,
            put: 0.005,
            delete: 0.0,
            download: 0.09,
        }
    }
}

impl Prices {
    /// What [`Prices::parse`] takes, for help.
    pub const FORM: &str = "get=, head=, list=, put=, delete= (for 1,000), download= (for a GB of \
                            10^9 bytes) and currency=, separated by commas";

    /// Prices such as `get=0.0004,put=0.005,download=0.09,currency=EUR`. What is not named costs
    /// nothing.
    ///
    /// # Errors
    ///
    /// What is wrong, in a line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut prices = Self {
            name: "configured".to_owned(),
            get: 0.0,
            head: 0.0,
            list: 0.0,
            put: 0.0,
            download: 0.0,
            ..Self::default()
        };
        for pair in text.split(',') {
            let wrong = || format!("'{pair}': {} are wanted", Self::FORM);
            let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
            if name == "currency" {
                let is_plain = value.bytes().all(|byte| byte.is_ascii_alphanumeric());
                let is_short = (1..=8).contains(&value.len());
                (is_plain && is_short).then_some(()).ok_or_else(wrong)?;
                value.clone_into(&mut prices.currency);
                continue;
            }
            let price = match name {
                "get" => &mut prices.get,
                "head" => &mut prices.head,
                "list" => &mut prices.list,
                "put" => &mut prices.put,
                "delete" => &mut prices.delete,
                "download" => &mut prices.download,
                _ => return Err(wrong()),
            };
            let given = value.parse().ok();
            let given = given.filter(|given: &f64| (0.0..=1e9).contains(given));
            *price = given.ok_or_else(wrong)?;
        }
        Ok(prices)
    }

    /// As [`Prices::parse`] takes them.
    #[must_use]
    pub fn shown(&self) -> String {
        let Self {
            get,
            head,
            list,
            put,
            delete,
            download,
            currency,
            ..
        } = self;
        format!(
            "get={get},head={head},list={list},put={put},delete={delete},download={download},\
             currency={currency}"
        )
    }

    /// The cost of a snapshot or a difference of two; `None` where no store was asked.
    #[must_use]
    pub fn cost(&self, snapshot: &Snapshot) -> Option<f64> {
        let kinds = [
            (&names::OBJECT_GETS, self.get),
            (&names::OBJECT_HEADS, self.head),
            (&names::OBJECT_LISTS, self.list),
            (&names::OBJECT_PUTS, self.put),
            (&names::OBJECT_DELETES, self.delete),
        ];
        // Exact up to 2^53.
        let count = |counter: &Counter| snapshot.counter(counter) as f64;
        let all: f64 = kinds.iter().map(|(counter, _)| count(counter)).sum();
        if all <= count(&names::OBJECT_WEB_REQUESTS) {
            return None;
        }
        let requests = kinds.map(|(counter, price)| count(counter) * price / REQUESTS);
        let bytes = count(&names::OBJECT_RECEIVED_BYTES) * self.download / GIGABYTE;
        Some(requests.iter().sum::<f64>() + bytes)
    }
}

static PRICES: OnceLock<Prices> = OnceLock::new();

/// Sets the prices of the process; the first ones hold.
pub fn set_prices(prices: Prices) {
    let _ = PRICES.set(prices);
}

/// The prices of the process.
pub(super) fn prices() -> Prices {
    PRICES.get().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_and_wrong_ones_named() {
        let text = "get=0.0004,put=5,download=0,currency=EUR";
        let prices = Prices::parse(text).unwrap();
        assert_eq!((prices.get, prices.put, prices.list), (0.0004, 5.0, 0.0));
        assert_eq!(prices.currency, "EUR");
        assert_eq!(Prices::parse(&prices.shown()), Ok(prices));
        for wrong in [
            "",
            "get",
            "get=",
            "get=-1",
            "get=NaN",
            "get=inf",
            "take=1",
            "currency=",
            "currency=\u{1b}[2J",
            "get=1,,put=1",
        ] {
            let error = Prices::parse(wrong).unwrap_err();
            assert!(error.contains("download="), "{error}");
        }
    }

    #[test]
    fn a_cost_is_requests_and_bytes_by_their_prices() {
        let mut snapshot = crate::testing::snapshot();
        let prices = Prices::default();
        let mut set = |counter: &Counter, value| {
            snapshot.counters.insert(counter.name.to_owned(), value);
            prices.cost(&snapshot)
        };
        for counter in names::OBJECTS {
            set(counter, 0);
        }
        assert_eq!(set(&names::OBJECT_RECEIVED_BYTES, 2_000_000_000), None);
        assert_eq!(set(&names::OBJECT_DELETES, 1), Some(0.18));
        let cost = set(&names::OBJECT_PUTS, 10_000).unwrap();
        assert!((cost - 0.23).abs() < 1e-9, "{cost}");
        let cost = set(&names::OBJECT_GETS, 1_000_000).unwrap();
        assert!((cost - 0.63).abs() < 1e-9, "{cost}");
        assert_eq!(set(&names::OBJECT_WEB_REQUESTS, 1_010_001), None);
    }
}
