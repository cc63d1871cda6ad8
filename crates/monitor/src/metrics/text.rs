//! Numbers for people.

/// A time in two units.
pub fn uptime(seconds: f64) -> String {
    let whole = seconds as u64; // saturates
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {} h", whole / 86_400, whole / 3600 % 24),
    }
}

/// Three digits and a unit.
pub fn duration(microseconds: f64) -> String {
    let (value, unit) = match microseconds {
        ..1e3 => (microseconds, "us"),
        ..1e6 => (microseconds / 1e3, "ms"),
        _ => (microseconds / 1e6, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// Three digits, with k, M or G for thousands.
pub fn short(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        ..1e4 => three_digits(value),
        ..1e6 => three_digits(value / 1e3) + "k",
        ..1e9 => three_digits(value / 1e6) + "M",
        _ => three_digits(value / 1e9) + "G",
    }
}

/// Money: more digits of less.
pub fn money(value: f64) -> String {
    let digits = match value {
        ..0.1 => 4,
        ..1.0 => 3,
        _ => 2,
    };
    format!("{value:.digits$}")
}

fn three_digits(value: f64) -> String {
    let digits = match value {
        ..9.95 => 2,
        ..99.5 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        for (value, text) in [
            (0.5, "0.50 us"),
            (99.9, "100 us"),
            (1500.0, "1.50 ms"),
            (3e7, "30.0 s"),
        ] {
            assert_eq!(duration(value), text);
        }
        assert_eq!(uptime(3.25), "3.2 s");
        assert_eq!(uptime(90_061.0), "1 d 1 h");
    }
}
