//! The machine of results, in words.

use super::units::bytes;
use crate::measure::Environment;

/// Processor, caches, memory and kernel, in two lines.
pub fn machine(here: &Environment) -> String {
    format!(
        "{}, {} {}processors, caches {},\n{} of memory, {}",
        here.processor,
        here.processors,
        if here.is_virtual { "virtual " } else { "" },
        here.caches,
        bytes(here.memory_bytes),
        here.kernel,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_whether_processors_are_real() {
        let mut here = Environment {
            caches: "L1d 32K, L2 1024K".to_owned(),
            processors: 2,
            is_virtual: true,
            ..Environment::here()
        };
        let said = ", 2 virtual processors, caches L1d 32K, L2 1024K,\n";
        assert!(machine(&here).contains(said));
        here.is_virtual = false;
        assert!(machine(&here).contains(", 2 processors, caches") && !here.kernel.is_empty());
    }
}
