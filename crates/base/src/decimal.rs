//! A number with a unit behind it, for sizes and times.

/// Ten to this power is below 2^63.
const FRACTION_DIGITS_MAX: usize = 18;

/// The number and the unit behind it.
pub(crate) fn split_unit(text: &str) -> (&str, &str) {
    let unit = text.find(|letter: char| letter.is_ascii_alphabetic());
    text.split_at(unit.unwrap_or(text.len()))
}

/// `number` units, rounded down: digits, and a point with more digits if need be. At most 2^63 - 1.
pub(crate) fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > FRACTION_DIGITS_MAX {
        return None;
    }
    let tens = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(unit) / tens;
    let all = u128::from(whole.parse::<u64>().ok()?) * u128::from(unit) + part;
    u64::try_from(all)
        .ok()
        .filter(|all| i64::try_from(*all).is_ok())
}
