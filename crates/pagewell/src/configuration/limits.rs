//! The limits in the configuration: `[limits]` for each client, and the same keys in an
//! `[[export]]` for its clients together.

use std::num::NonZeroU64;

use pagewell_base::size;
use pagewell_nfsd::Rates;
use serde_json::json;

use super::picker::{Picker, some};
use super::table::{At, Table, number, text_or_number};

const CALLS_MAX: u64 = 1_000_000_000;

/// Bytes a second. With fewer, paying for one READ would take longer than clients wait for an
/// answer.
const BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 40;

/// Keys of `[limits]`, and some of `[[export]]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitKeys {
    calls_per_second: Option<At<NonZeroU64>>,
    bytes_per_second: Option<At<NonZeroU64>>,
}

impl LimitKeys {
    /// Takes them out of a table that may have others.
    pub(super) fn take(table: &mut Table<'_>) -> Self {
        Self {
            calls_per_second: table.take("calls_per_second", number(parse_calls)),
            bytes_per_second: table.take("bytes_per_second", text_or_number(parse_bytes)),
        }
    }

    pub(super) fn take_all(mut table: Table<'_>) -> Self {
        let keys = Self::take(&mut table);
        table.end();
        keys
    }

    pub(super) fn resolve(keys: Option<&Self>, picker: &mut Picker<'_>) -> Rates {
        let calls = keys.and_then(|keys| some(&keys.calls_per_second));
        let bytes = keys.and_then(|keys| some(&keys.bytes_per_second));
        let shown = |rate: &Option<NonZeroU64>| json!(rate);
        Rates {
            calls: picker.pick("calls_per_second", (None, calls), None, shown),
            bytes: picker.pick("bytes_per_second", (None, bytes), None, shown),
        }
    }
}

fn parse_calls(text: &str) -> Result<NonZeroU64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number: &NonZeroU64| number.get() <= CALLS_MAX);
    number.ok_or_else(|| format!("a number from 1 to {CALLS_MAX} is wanted"))
}

fn parse_bytes(text: &str) -> Result<NonZeroU64, String> {
    let bytes = size::within(text, BYTES)?;
    NonZeroU64::new(bytes).ok_or_else(|| "a size above 0 is wanted".to_owned())
}

pub(crate) fn shown(rates: Rates) -> String {
    let calls = rates.calls.map(|calls| format!("{calls} calls/s"));
    let bytes = rates.bytes;
    let bytes = bytes.map(|bytes| format!("{}/s", size::display(bytes.get())));
    let parts: Vec<String> = calls.into_iter().chain(bytes).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_bounds() {
        assert_eq!(parse_calls("1").unwrap().get(), 1);
        for wrong in ["0", "", "-1", "1000000001", "1.5"] {
            let refusal = parse_calls(wrong).unwrap_err();
            assert_eq!(refusal, "a number from 1 to 1000000000 is wanted");
        }
        assert_eq!(parse_bytes("64k").unwrap().get(), 64 << 10);
        for wrong in ["0", "65535", "2t", "fast"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_limit_is_shown_in_few_words() {
        let rates = Rates {
            calls: NonZeroU64::new(500),
            bytes: NonZeroU64::new(100 << 20),
        };
        assert_eq!(shown(rates), "500 calls/s, 100 MiB/s");
        assert_eq!(shown(Rates::default()), "");
    }
}
