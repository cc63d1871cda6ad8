//! Options of a mount, behind the question mark of a URL or `-o`: each `KEY` or `KEY=VALUE`. An
//! unknown key is an error that lists the known ones, and no value is bent to fit.

use std::time::Duration;

use pagewell_base::{duration, size};
use pagewell_fs::Credentials;
use pagewell_sunrpc::client::{CONNECTIONS_MAX, EncodedCredential, SourcePort};

use super::attributes::Ages;

/// Bounds of a transfer, in bytes.
pub(super) const TRANSFER_BYTES_MIN: u32 = 1 << 10;
pub(super) const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// Default connections of a mount; the first large call makes the further ones. With four, a client
/// that drops everything is twice as fast as with one, whose data one thread of each side moves
/// (`bare_reader` of `sunrpc`).
const CONNECTIONS: usize = 4;
/// Of a fixed read-ahead.
pub(super) const READ_AHEAD_BLOCKS_MAX: u32 = 256;
/// Times that a soft mount waits for [`NfsOptions::timeout`].
const ATTEMPTS_MAX: u32 = 100;
/// Of any option: a day.
const TIME_MAX: Duration = Duration::from_secs(86_400);
/// As of mount(8) over TCP.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Of a user or group: the one above stands for none.
const ID_MAX: u32 = u32::MAX - 1;
/// Longest injected round trip.
const DELAY_MAX: Duration = Duration::from_secs(10);
/// How long a file must be unchanged for its pages to be kept on a disk: longer than ticks of
/// servers' clocks, and than clocks usually differ.
const KEPT_AFTER: Duration = Duration::from_secs(60);

/// The options and what they do.
pub const OPTIONS: [(&str, &str); 14] = [
    (
        "port=N, mountport=N",
        "The ports of NFS and of MOUNT, where the port mapper of the server is not to be asked.",
    ),
    (
        "rsize=SIZE, wsize=SIZE",
        "Bytes of one READ and one WRITE, 1k to 1m. Default: as many as the server takes.",
    ),
    (
        "readahead=N|auto",
        "Blocks of rsize that are fetched ahead of a reader. Default: auto.",
    ),
    ("connections=N", "TCP connections, 1 to 16. Default: 4."),
    (
        "hard, soft",
        "Wait for a server that is gone (default), or fail after retrans times timeo.",
    ),
    (
        "timeo=TENTHS, retrans=N",
        "After the time timeo without an answer, in tenths of a second, calls are sent again. \
         Default: 600 and 3.",
    ),
    (
        "sync, async",
        "Writes are on stable storage when they return, or when they are committed (default).",
    ),
    (
        "ro, rw",
        "Change nothing, or what the server lets (default).",
    ),
    (
        "acregmin=SECONDS, acregmax=SECONDS, acdirmin=SECONDS, acdirmax=SECONDS, actimeo=SECONDS, \
         noac",
        "How long attributes are believed: 3 to 60 seconds for files, 30 to 60 for directories; \
         actimeo sets all four, noac none.",
    ),
    (
        "cto, nocto",
        "Ask for attributes at each open (default), or believe them.",
    ),
    (
        "resvport, noresvport",
        "Call from a reserved port, or from any. Default: a reserved one if the process may.",
    ),
    (
        "uid=N, gid=N",
        "Make all calls as this user and group, whoever asks. Default: as whoever asks.",
    ),
    (
        "noatime, atime, version=3",
        "Taken for mount(8): times of access are the server's, and there is no other version.",
    ),
    (
        "delay=MILLISECONDS",
        "Adds a round trip to each call, to measure.",
    ),
];

/// Why options or a URL cannot be used, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl ParseError {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// How much is fetched ahead of a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAhead {
    /// As much as the round trip needs.
    #[default]
    Auto,
    /// Always so many blocks of the size of a READ; 0 is off.
    Blocks(u32),
}

/// How to mount. The default is that of a URL without options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfsOptions {
    /// Port of NFS; `None`: that of the port mapper, else 2049.
    pub port: Option<u16>,
    /// Port of MOUNT; `None`: that of NFS, and if that is not given either, perhaps that of the
    /// port mapper.
    pub mount_port: Option<u16>,
    /// 1 to 16.
    pub connections: usize,
    /// Of one READ; `None`: as many as the server takes, up to 1 MiB.
    pub read_bytes: Option<u32>,
    /// Of one WRITE; `None` as above.
    pub write_bytes: Option<u32>,
    /// How much is fetched ahead of a reader.
    pub read_ahead: ReadAhead,
    /// Nothing is to be changed.
    pub read_only: bool,
    /// Give up after [`NfsOptions::attempts`] times the timeout.
    pub soft: bool,
    /// Of one attempt.
    pub timeout: Duration,
    /// Times that a soft mount waits for the timeout.
    pub attempts: u32,
    /// Writes are on stable storage when they return.
    pub synchronous: bool,
    /// How long attributes are believed.
    pub ages: Ages,
    /// Attributes are asked for at each open.
    pub close_to_open: bool,
    /// Source ports of calls.
    pub caller_port: SourcePort,
    /// User of all calls; `None`: the caller's.
    pub uid: Option<u32>,
    /// Group of all calls; `None`: the caller's.
    pub gid: Option<u32>,
    /// An injected round trip, for measurements.
    pub delay: Option<Duration>,
    /// How long a file must be unchanged for the disk tier to keep its pages.
    pub kept_after: Duration,
}

impl Default for NfsOptions {
    fn default() -> Self {
        Self {
            port: None,
            mount_port: None,
            connections: CONNECTIONS,
            read_bytes: None,
            write_bytes: None,
            read_ahead: ReadAhead::Auto,
            read_only: false,
            soft: false,
            timeout: TIMEOUT,
            attempts: 3,
            synchronous: false,
            ages: Ages::default(),
            close_to_open: true,
            caller_port: SourcePort::ReservedIfPossible,
            uid: None,
            gid: None,
            delay: None,
            kept_after: KEPT_AFTER,
        }
    }
}

impl NfsOptions {
    /// Sets an option from `KEY` or `KEY=VALUE`.
    ///
    /// # Errors
    /// The key and what it takes, or every key when it is unknown.
    pub fn set(&mut self, text: &str) -> Result<(), ParseError> {
        let pair = text.split_once('=');
        let (key, value) = pair.map_or((text, None), |(key, value)| (key, Some(value)));
        let field = Field { key, value };
        match key {
            "port" | "nfsport" => self.port = Some(field.number(1, 65_535)?),
            "mountport" => self.mount_port = Some(field.number(1, 65_535)?),
            "connections" | "nconnect" => self.connections = field.number(1, CONNECTIONS_MAX)?,
            "rsize" => self.read_bytes = Some(field.transfer()?),
            "wsize" => self.write_bytes = Some(field.transfer()?),
            "readahead" if value == Some("auto") => self.read_ahead = ReadAhead::Auto,
            "readahead" => {
                self.read_ahead = ReadAhead::Blocks(field.number(0, READ_AHEAD_BLOCKS_MAX)?);
            }
            "timeo" => self.timeout = field.time(TENTHS, Duration::from_millis(1), TIME_MAX)?,
            "retrans" => self.attempts = field.number(1, ATTEMPTS_MAX)?,
            "uid" => self.uid = Some(field.number(0, ID_MAX)?),
            "gid" => self.gid = Some(field.number(0, ID_MAX)?),
            "delay" => self.delay = Some(field.time(MILLISECONDS, Duration::ZERO, DELAY_MAX)?),
            "version" | "vers" | "nfsvers" => drop(field.number::<u32>(3, 3)?),
            "acregmin" | "acregmax" | "acdirmin" | "acdirmax" | "actimeo" => {
                let time = field.seconds(Duration::ZERO)?;
                self.ages.set(key, time);
            }
            _ => self.set_switch(&field)?,
        }
        Ok(())
    }

    fn set_switch(&mut self, field: &Field<'_>) -> Result<(), ParseError> {
        match field.key {
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "soft" => self.soft = true,
            "hard" => self.soft = false,
            "sync" => self.synchronous = true,
            "async" => self.synchronous = false,
            // This client sets no times of access by itself.
            "noatime" | "atime" | "relatime" => {}
            "noac" => {
                self.ages = Ages::NONE;
                self.synchronous = true;
            }
            "ac" => self.ages = Ages::default(),
            "cto" => self.close_to_open = true,
            "nocto" => self.close_to_open = false,
            "resvport" => self.caller_port = SourcePort::Reserved,
            "noresvport" => self.caller_port = SourcePort::Any,
            key => {
                let all = OPTIONS.map(|(form, _)| form).join(", ");
                return Err(ParseError::new(format!(
                    "unknown option '{key}' (options are {all})"
                )));
            }
        }
        match field.value {
            None => Ok(()),
            Some(_) => Err(field.wrong("takes no value")),
        }
    }

    /// How long a soft mount waits for an answer.
    pub(super) fn soft_time(&self) -> Duration {
        self.timeout.saturating_mul(self.attempts)
    }

    /// A likely mistake: seconds, where tenths of one are meant.
    pub(super) fn doubt(&self) -> Option<String> {
        (self.timeout > TIMEOUT).then(|| {
            let seconds = self.timeout.as_secs_f64();
            format!(
                "timeo= is in tenths of a second: each attempt waits {seconds} s for the server \
                 (default 60 s, timeo=600)"
            )
        })
    }

    /// The user of calls for this user.
    pub(super) fn credential(&self, user: &Credentials) -> EncodedCredential {
        // Without further groups, which are the other user's.
        let is_other = self.uid.is_some() || self.gid.is_some();
        let groups = if is_other { &[] } else { user.groups() };
        EncodedCredential::of_user(self.uid_of(user), self.gid.unwrap_or(user.gid), groups)
    }

    /// The number of this user for the server.
    pub(super) fn uid_of(&self, user: &Credentials) -> u32 {
        self.uid.unwrap_or(user.uid)
    }

    /// The user of calls for this process.
    pub(super) fn own_credential(&self) -> EncodedCredential {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        self.credential(&Credentials::new(uid.as_raw(), gid.as_raw(), &[]))
    }

    /// Refuses contradictory options.
    ///
    /// # Errors
    /// The two.
    pub fn check(&self) -> Result<(), ParseError> {
        let ages = &self.ages;
        if ages.file_min > ages.file_max {
            return Err(ParseError::new("acregmin is over acregmax"));
        }
        if ages.directory_min > ages.directory_max {
            return Err(ParseError::new("acdirmin is over acdirmax"));
        }
        Ok(())
    }
}

/// Units of times without one, and how many are a second.
const SECONDS: (&str, u32) = ("s", 1);
const TENTHS: (&str, u32) = ("tenths of a second", 10);
const MILLISECONDS: (&str, u32) = ("ms", 1000);

struct Field<'a> {
    key: &'a str,
    value: Option<&'a str>,
}

impl Field<'_> {
    fn wrong(&self, reason: &str) -> ParseError {
        let value = self
            .value
            .map_or(String::new(), |value| format!("={value}"));
        ParseError::new(format!("option '{}{value}': {reason}", self.key))
    }

    fn number<T>(&self, least: T, most: T) -> Result<T, ParseError>
    where
        T: std::str::FromStr + PartialOrd + std::fmt::Display + Copy,
    {
        let number = self.value.and_then(|value| value.parse::<T>().ok());
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| self.wrong(&format!("takes a number from {least} to {most}")))
    }

    /// A multiple of 1 KiB, with or without a unit.
    fn transfer(&self) -> Result<u32, ParseError> {
        let size = self.value.and_then(|value| size::parse(value).ok());
        let size = size.and_then(|size| u32::try_from(size).ok());
        let range = TRANSFER_BYTES_MIN..=TRANSFER_BYTES_MAX;
        size.filter(|size| range.contains(size) && size.is_multiple_of(TRANSFER_BYTES_MIN))
            .ok_or_else(|| self.wrong("takes bytes from 1k to 1m, a multiple of 1k"))
    }

    fn seconds(&self, least: Duration) -> Result<Duration, ParseError> {
        self.time(SECONDS, least, TIME_MAX)
    }

    /// A time, by default in this unit.
    fn time(
        &self,
        (unit, parts_of_second): (&str, u32),
        least: Duration,
        most: Duration,
    ) -> Result<Duration, ParseError> {
        let time = self.value.and_then(|value| {
            let has_unit = value.ends_with(|last: char| last.is_ascii_alphabetic());
            let time = duration::parse(value).ok()?;
            Some(if has_unit {
                time
            } else {
                time / parts_of_second
            })
        });
        time.filter(|time| (least..=most).contains(time))
            .ok_or_else(|| {
                self.wrong(&format!(
                    "takes a time from {least:?} to {most:?}; without a unit it is in {unit}"
                ))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(texts: &[&str]) -> Result<NfsOptions, ParseError> {
        let mut options = NfsOptions::default();
        for text in texts {
            options.set(text)?;
        }
        options.check().map(|()| options)
    }

    #[test]
    fn each_option_that_is_listed_is_taken() {
        for (form, does) in OPTIONS {
            assert!(does.ends_with('.'), "{does}");
            for one in form.split(", ") {
                let one = one.split('|').next().unwrap();
                let (key, value) = one.split_once('=').unwrap_or((one, ""));
                let value = match value {
                    "SIZE" => "=64k",
                    "N" | "TENTHS" | "MILLISECONDS" => "=7",
                    "SECONDS" => "=40",
                    "3" => "=3",
                    other => other,
                };
                options(&[&format!("{key}{value}")]).unwrap();
            }
        }
    }

    #[test]
    fn each_option_sets_what_it_says() {
        let all = options(&[
            "mountport=7",
            "connections=16",
            "rsize=64k",
            "wsize=0.03125m",
            "readahead=8",
            "ro",
            "soft",
            "timeo=5",
            "retrans=2",
            "sync",
            "nocto",
            "noresvport",
            "uid=1000",
            "gid=0",
            "delay=0.1",
            "acregmin=1",
            "acregmax=2",
            "acdirmin=3000ms",
            "acdirmax=4.5",
            "noatime",
            "version=3",
            "nfsport=2050",
        ])
        .unwrap();
        let expected = NfsOptions {
            port: Some(2050),
            mount_port: Some(7),
            connections: 16,
            read_bytes: Some(65_536),
            write_bytes: Some(32_768),
            read_ahead: ReadAhead::Blocks(8),
            read_only: true,
            soft: true,
            timeout: Duration::from_millis(500),
            attempts: 2,
            synchronous: true,
            ages: Ages {
                file_min: Duration::from_secs(1),
                file_max: Duration::from_secs(2),
                directory_min: Duration::from_secs(3),
                directory_max: Duration::from_millis(4500),
            },
            close_to_open: false,
            caller_port: SourcePort::Any,
            uid: Some(1000),
            gid: Some(0),
            delay: Some(Duration::from_micros(100)),
            kept_after: KEPT_AFTER,
        };
        assert_eq!(all, expected);
        let undone = ["rw", "hard", "async", "cto", "readahead=auto", "ac"];
        let texts: Vec<&str> = ["ro", "soft", "noac", "nocto", "readahead=0"]
            .into_iter()
            .chain(undone)
            .collect();
        assert_eq!(options(&texts).unwrap(), NfsOptions::default());
        assert_eq!(options(&["actimeo=0"]).unwrap().ages, Ages::NONE);
    }

    #[test]
    fn calls_are_made_as_whom_the_options_name() {
        let user = Credentials::new(1, 2, &[3, 4]);
        for (texts, uid, gid, groups) in [
            (&[][..], 1, 2, &[3, 4][..]),
            (&["uid=7"], 7, 2, &[]),
            (&["gid=8"], 1, 8, &[]),
            (&["uid=0", "gid=8"], 0, 8, &[]),
        ] {
            let options = options(texts).unwrap();
            let expected = EncodedCredential::of_user(uid, gid, groups);
            assert_eq!(options.credential(&user), expected, "{texts:?}");
            assert_eq!(options.uid_of(&user), uid);
        }
        let process = NfsOptions::default().own_credential();
        assert_eq!(process, EncodedCredential::of_process());
    }

    #[test]
    fn timeo_is_in_tenths_of_a_second_as_everywhere() {
        for (text, milliseconds, is_doubted) in [
            ("timeo=600", 60_000, false),
            ("timeo=601", 60_100, true),
            ("timeo=14", 1400, false),
            ("timeo=0.5", 50, false),
            ("timeo=5s", 5000, false),
            ("timeo=2m", 120_000, true),
        ] {
            let options = options(&[text]).unwrap();
            assert_eq!(
                options.timeout,
                Duration::from_millis(milliseconds),
                "{text}"
            );
            let doubt = options.doubt();
            assert_eq!(doubt.is_some(), is_doubted, "{text}: {doubt:?}");
        }
        let doubt = options(&["timeo=601"]).unwrap().doubt().unwrap();
        assert!(doubt.contains("waits 60.1 s"), "{doubt}");
        assert_eq!(NfsOptions::default().doubt(), None);
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        for (text, part) in [
            ("rsize", "1k to 1m"),
            ("rsize=512", "1k to 1m"),
            ("rsize=2m", "1k to 1m"),
            ("rsize=1025", "multiple of 1k"),
            ("wsize=99999999999m", "1k to 1m"),
            ("connections=0", "from 1 to 16"),
            ("connections=17", "from 1 to 16"),
            ("mountport=65536", "from 1 to 65535"),
            ("readahead=-1", "from 0 to 256"),
            ("timeo=0", "a time from 1ms to 86400s"),
            ("timeo=nan", "without a unit it is in tenths of a second"),
            ("acregmin=-1", "a time"),
            ("acregmin=1e300", "a time"),
            ("delay=10001", "10s; without a unit it is in ms"),
            ("retrans=0", "from 1 to 100"),
            ("version=4", "from 3 to 3"),
            ("uid=me", "from 0 to 4294967294"),
            ("gid=4294967295", "from 0 to 4294967294"),
            ("soft=1", "takes no value"),
            ("bogus=1", "unknown option 'bogus' (options are port=N"),
            ("", "unknown option ''"),
            ("acregmin=61", "acregmin is over acregmax"),
            ("acdirmax=1", "acdirmin is over acdirmax"),
        ] {
            let error = options(&[text]).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
