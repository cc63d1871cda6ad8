//! What the examples share: a port of their own, and an end.

use std::io::Read;

use pagewell_nfsd::Config;

/// The same on a port of loopback that is free.
#[must_use]
pub fn on_any_port(config: Config) -> Config {
    Config {
        listen: ([127, 0, 0, 1], 0).into(),
        ..config
    }
}

/// Returns when standard input has ended: at ^D, or with the program that started this one.
pub fn wait_for_end_of_input() {
    let mut rest = [0; 64];
    while matches!(std::io::stdin().read(&mut rest), Ok(1..)) {}
}
