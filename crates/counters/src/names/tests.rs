//! What all names have in common.

use super::*;

#[test]
fn names_are_unique_and_well_formed() {
    let mut seen = std::collections::HashSet::new();
    let counters = counters().map(|counter| (counter.name, counter.help));
    let gauges = GAUGES.iter().map(|gauge| (gauge.name, gauge.help));
    for (name, help) in counters.clone().chain(gauges) {
        assert!(seen.insert(name), "{name} twice");
        assert!(
            name.starts_with("pagewell_") && help.ends_with('.'),
            "{name}"
        );
    }
    assert!(
        counters
            .into_iter()
            .all(|(name, _)| name.ends_with("_total"))
    );
}
