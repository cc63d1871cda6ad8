//! What has to be said once and must not be lost.

use std::io::Write;
use std::sync::Once;

/// Writes `pagewell: warning: TEXT` to standard error, as one line, the first time.
pub(crate) fn warn_once(once: &Once, text: &str) {
    once.call_once(|| {
        let mut line = String::from("pagewell: warning: ");
        for character in text.chars() {
            if character.is_control() {
                line.extend(character.escape_default());
            } else {
                line.push(character);
            }
        }
        line.push('\n');
        // There is nowhere left to say that it could not be said.
        let _ = std::io::stderr().write_all(line.as_bytes());
    });
}
