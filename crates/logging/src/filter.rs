//! The log's levels, by crate.

use tracing::level_filters::LevelFilter;

use crate::AUDIT;

/// Crates that log, as users name them, and the audit log.
pub const CRATES: [&str; 15] = [
    "audit",
    "cache",
    "device",
    "fs",
    "fuse",
    "logging",
    "monitor",
    "nfsd",
    "pagewell",
    "source-dir",
    "source-image",
    "source-iso",
    "source-nfs",
    "source-object",
    "sunrpc",
];

/// Crates that are a part of another to users, with its name.
const PARTS: [(&str, &str); 6] = [
    ("rpcd", "nfsd"),
    ("export", "nfsd"),
    ("nfs3d", "nfsd"),
    ("nlmd", "nfsd"),
    ("disk_tier", "cache"),
    ("staging", "source-object"),
];

const LEVELS: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// Levels, by crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Of crates without a level of their own.
    default: LevelFilter,
    of_crates: Vec<(&'static str, LevelFilter)>,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            default: LevelFilter::INFO,
            of_crates: Vec::new(),
        }
    }
}

/// The user's name of a target's crate: `source-nfs` of `pagewell_source_nfs::mount`.
#[must_use]
pub fn crate_of(target: &str) -> String {
    let first = target.split("::").next().unwrap_or(target);
    let own = first.strip_prefix("pagewell_").unwrap_or(first);
    let whole = PARTS.iter().find(|(part, _)| *part == own);
    whole.map_or_else(|| own.replace('_', "-"), |(_, whole)| (*whole).to_owned())
}

impl Filter {
    /// Reads `LEVEL`, `CRATE=LEVEL`, or several between commas; the last one of a crate counts.
    ///
    /// # Errors
    ///
    /// What is wrong, and what is valid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                None => filter.default = level(part)?,
                Some((name, of_crate)) => {
                    let name = name.trim();
                    let own = name.strip_prefix("pagewell-").unwrap_or(name);
                    let known = CRATES.into_iter().find(|known| *known == own);
                    let known = known.ok_or_else(|| {
                        format!("no crate '{name}': one of {} is wanted", CRATES.join(", "))
                    })?;
                    let of_crate = level(of_crate.trim())?;
                    filter.of_crates.retain(|(name, _)| *name != known);
                    filter.of_crates.push((known, of_crate));
                }
            }
        }
        Ok(filter)
    }

    /// The level of a target.
    #[must_use]
    pub fn level_of(&self, target: &str) -> LevelFilter {
        let name = crate_of(target);
        let own = self.of_crates.iter().find(|(known, _)| *known == name);
        match own {
            Some((_, level)) => *level,
            // An audit log is asked for by its own option.
            None if target == AUDIT => LevelFilter::INFO,
            None => self.default,
        }
    }

    /// The highest of all levels.
    #[must_use]
    pub fn highest(&self) -> LevelFilter {
        let own = self.of_crates.iter().map(|(_, level)| *level);
        own.fold(self.default.max(self.level_of(AUDIT)), LevelFilter::max)
    }
}

fn level(text: &str) -> Result<LevelFilter, String> {
    let known = LEVELS.iter().find(|(name, _)| *name == text);
    known.map(|(_, level)| *level).ok_or_else(|| {
        format!(
            "no level '{text}': off, error, warn, info, debug or trace is wanted, or CRATE=LEVEL"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_by_crate() {
        let filter = Filter::parse("warn,nfsd=debug, source-nfs=trace").unwrap();
        for (target, level) in [
            ("pagewell_cache::flusher", LevelFilter::WARN),
            ("pagewell_nfsd::service", LevelFilter::DEBUG),
            ("pagewell_nfsd", LevelFilter::DEBUG),
            ("pagewell_nfs3d::program", LevelFilter::DEBUG),
            ("pagewell_source_nfs::mount", LevelFilter::TRACE),
            ("pagewell::commands::serve", LevelFilter::WARN),
            ("another", LevelFilter::WARN),
            (AUDIT, LevelFilter::INFO),
        ] {
            assert_eq!(filter.level_of(target), level, "{target}");
        }
        assert_eq!(filter.highest(), LevelFilter::TRACE);
    }

    #[test]
    fn the_program_is_not_all_of_its_crates() {
        let filter = Filter::parse("pagewell=debug,audit=off").unwrap();
        assert_eq!(filter.level_of("pagewell::open"), LevelFilter::DEBUG);
        assert_eq!(filter.level_of("pagewell_nfsd::open"), LevelFilter::INFO);
        assert_eq!(filter.level_of(AUDIT), LevelFilter::OFF);
        assert_eq!(
            Filter::parse("off,audit=off").unwrap().highest(),
            LevelFilter::OFF
        );
    }

    #[test]
    fn the_last_one_counts() {
        let filter = Filter::parse("debug,error,nfsd=off,pagewell-nfsd=info").unwrap();
        assert_eq!(filter.level_of("pagewell_cache"), LevelFilter::ERROR);
        assert_eq!(filter.level_of("pagewell_nfsd"), LevelFilter::INFO);
        assert_eq!(filter.of_crates.len(), 1);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("", "no level ''"),
            ("verbose", "no level 'verbose': off, error"),
            ("nfs=debug", "no crate 'nfs': one of audit, cache"),
            ("nfsd=", "no level ''"),
            ("info,,nfsd=debug", "no level ''"),
            ("nfsd=debug=info", "no level 'debug=info'"),
        ] {
            let error = Filter::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
