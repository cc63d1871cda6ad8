//! Mode, owner, times and links in the metadata of an object, as s3fs and rclone write and read
//! them.
//!
//! ```text
//!   mode               33188                    decimal, with the bits of the type (s3fs)
//!   uid, gid           1000                     decimal (s3fs, rclone --metadata)
//!   mtime              1795839036.163480710     seconds since 1970, and no point or nine digits
//!   atime, ctime       1795839036               the same (s3fs)
//!   rdev               801                      hexadecimal, of a device (rclone --metadata)
//!   pagewell-version   7                        one more with each change by Pagewell
//!   pagewell-write     5f0c...                  the change that made the object (object-client)
//! ```
//!
//! A symbolic link is an object whose mode says so and whose bytes are its target, as in s3fs.
//!
//! **Fractions.** rclone cuts the zeros at the end: `.16348071` is 163,480,710 ns. s3fs reads the
//! same text as 16,348,071 ns, and before 1.90 dropped the fraction. All read nine digits right, so
//! nine are written; text that is read may have fewer, with rclone's meaning, or more, which are
//! cut.
//!
//! **Modes.** `rclone --metadata` writes octal digits, `100644`. A number that is no mode by the
//! rules of s3fs (decimal; octal with a zero in front) is taken for that.
//!
//! **Known weaknesses.** `rclone --metadata` takes the decimal digits that are written for octal
//! ones: it refuses some modes and misreads others. A link of rclone (`NAME.rclonelink`) is a file
//! with that name. The names of s3sync, of Google's tools and of DataSync are not read, nor the
//! times of `rclone --metadata` other than `mtime` (RFC 3339).

use pagewell_fs::{FileType, Timestamp};
use pagewell_object_client::Metadata;
use rustix::fs::FileType as RawType;

/// Bytes of all names and values, with the prefix of the header: AWS's limit.
const BYTES_MAX: usize = 2048;
/// `x-amz-meta-`.
const PREFIX_BYTES: usize = 11;
/// Added later: the client's token, and marks by which a change is known again.
const ADDED_BYTES: usize = 160;
const VALUE_BYTES_MAX: usize = 64;
const PERMISSIONS: u32 = 0o7777;
const NANOSECOND_DIGITS: usize = 9;

const VERSION: &str = "pagewell-version";
const WRITE: &str = "pagewell-write";

/// What the metadata of an object says of a file, or what is to be set. What is missing or makes no
/// sense is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    pub file_type: Option<FileType>,
    /// The low 12 bits: permissions, set-user-id, set-group-id and sticky.
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// Last change of the data.
    pub modified: Option<Timestamp>,
    pub accessed: Option<Timestamp>,
    /// Last change of data or metadata.
    pub changed: Option<Timestamp>,
    pub device: Option<(u32, u32)>,
    /// Changes of the object by Pagewell: an ETag stays when metadata alone changes. 0 for objects
    /// of others.
    pub version: u64,
}

impl Marks {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let text = |name: &str| {
            let mut named = metadata.iter();
            let (_, value) = named.find(|(found, _)| found.eq_ignore_ascii_case(name))?;
            let value = value
                .get(..)
                .filter(|value| value.len() <= VALUE_BYTES_MAX)?;
            std::str::from_utf8(value).ok().map(str::trim)
        };
        let (file_type, mode) = text("mode").and_then(parse_mode).unzip();
        Self {
            file_type: file_type.flatten(),
            mode,
            uid: text("uid").and_then(parse_owner),
            gid: text("gid").and_then(parse_owner),
            modified: text("mtime").and_then(parse_time),
            accessed: text("atime").and_then(parse_time),
            changed: text("ctime").and_then(parse_time),
            device: text("rdev").and_then(parse_device),
            version: text(VERSION).and_then(digits).unwrap_or(0),
        }
    }

    /// These where they are set, else others.
    pub(super) fn over(self, others: Self) -> Self {
        Self {
            file_type: self.file_type.or(others.file_type),
            mode: self.mode.or(others.mode),
            uid: self.uid.or(others.uid),
            gid: self.gid.or(others.gid),
            modified: self.modified.or(others.modified),
            accessed: self.accessed.or(others.accessed),
            changed: self.changed.or(others.changed),
            device: self.device.or(others.device),
            version: self.version.max(others.version),
        }
    }

    /// The metadata of the next version of an object that has `others`: these values, one more for
    /// the version, and all that others have set beside. Beyond 2 KB the least important of these
    /// values are left out.
    pub(super) fn to(self, others: &Metadata) -> Metadata {
        let own = self.over(Self::of(others)).texts();
        let is_own = |name: &str| own.iter().any(|(own, _)| name.eq_ignore_ascii_case(own));
        let others = others.iter();
        let others = others.filter(|(name, _)| !is_own(name) && !name.eq_ignore_ascii_case(WRITE));
        let mut all: Metadata = others.cloned().collect();
        let size = |name: &str, value: &[u8]| PREFIX_BYTES + name.len() + value.len();
        let mut bytes = ADDED_BYTES;
        bytes += all
            .iter()
            .map(|(name, value)| size(name, value))
            .sum::<usize>();
        for (name, value) in own {
            bytes += size(name, value.as_bytes());
            if bytes > BYTES_MAX {
                break;
            }
            all.push((name.to_owned(), value.into_bytes()));
        }
        all
    }

    /// As they are written, the most important first.
    fn texts(&self) -> Vec<(&'static str, String)> {
        let number = |number: Option<u32>| number.map(|number| number.to_string());
        let time = |time: Option<Timestamp>| time.map(time_text);
        let mode = (self.mode.is_some() || self.file_type.is_some()).then(|| {
            let file_type = self.file_type.unwrap_or(FileType::Regular);
            let usual = match file_type {
                FileType::Directory => 0o755,
                FileType::Symlink => 0o777,
                _ => 0o644,
            };
            let mode = self.mode.unwrap_or(usual) & PERMISSIONS;
            (raw_of(file_type).as_raw_mode() | mode).to_string()
        });
        let device = self.device;
        let device = device.map(|(major, minor)| rustix::fs::makedev(major, minor));
        let texts = [
            (VERSION, Some(self.version.saturating_add(1).to_string())),
            ("mode", mode),
            ("mtime", time(self.modified)),
            ("uid", number(self.uid)),
            ("gid", number(self.gid)),
            ("rdev", device.map(|device| format!("{device:x}"))),
            ("ctime", time(self.changed)),
            ("atime", time(self.accessed)),
        ];
        let texts = texts.into_iter();
        texts
            .filter_map(|(name, text)| Some((name, text?)))
            .collect()
    }
}

fn digits(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Not the highest number, which stands for no owner.
fn parse_owner(text: &str) -> Option<u32> {
    let number = u32::try_from(digits(text)?).ok();
    number.filter(|number| *number != u32::MAX)
}

fn parse_mode(text: &str) -> Option<(Option<FileType>, u32)> {
    let number = digits(text)?;
    let octal = u64::from_str_radix(text, 8).ok();
    if text.starts_with('0') {
        return split_mode(octal?);
    }
    split_mode(number).or_else(|| split_mode(octal?))
}

fn split_mode(number: u64) -> Option<(Option<FileType>, u32)> {
    let number = u32::try_from(number).ok()?;
    let raw = number & !PERMISSIONS;
    let file_type = match RawType::from_raw_mode(raw) {
        _ if raw == 0 => None,
        found if found.as_raw_mode() == raw => Some(type_of(found)?),
        _ => return None,
    };
    Some((file_type, number & PERMISSIONS))
}

fn type_of(raw: RawType) -> Option<FileType> {
    Some(match raw {
        RawType::RegularFile => FileType::Regular,
        RawType::Directory => FileType::Directory,
        RawType::Symlink => FileType::Symlink,
        RawType::Fifo => FileType::Fifo,
        RawType::Socket => FileType::Socket,
        RawType::CharacterDevice => FileType::CharacterDevice,
        RawType::BlockDevice => FileType::BlockDevice,
        RawType::Unknown => return None,
    })
}

fn raw_of(file_type: FileType) -> RawType {
    match file_type {
        FileType::Regular => RawType::RegularFile,
        FileType::Directory => RawType::Directory,
        FileType::Symlink => RawType::Symlink,
        FileType::Fifo => RawType::Fifo,
        FileType::Socket => RawType::Socket,
        FileType::CharacterDevice => RawType::CharacterDevice,
        FileType::BlockDevice => RawType::BlockDevice,
    }
}

fn parse_device(text: &str) -> Option<(u32, u32)> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u64::from_str_radix(text, 16).ok().filter(|_| is_number)?;
    Some((rustix::fs::major(number), rustix::fs::minor(number)))
}

fn parse_time(text: &str) -> Option<Timestamp> {
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = fraction.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = i64::try_from(digits(whole)?).ok().filter(|_| is_number)?;
    let fraction = fraction.get(..NANOSECOND_DIGITS).unwrap_or(fraction);
    let nanoseconds = format!("{fraction:0<NANOSECOND_DIGITS$}").parse().ok()?;
    Some(match (is_negative, nanoseconds) {
        (false, nanoseconds) => Timestamp {
            seconds,
            nanoseconds,
        },
        (true, 0) => Timestamp {
            seconds: -seconds,
            nanoseconds: 0,
        },
        (true, before) => Timestamp {
            seconds: (-seconds).checked_sub(1)?,
            nanoseconds: 1_000_000_000 - before,
        },
    })
}

fn time_text(time: Timestamp) -> String {
    let (sign, seconds, nanoseconds) = match (time.seconds < 0, time.nanoseconds) {
        (false, nanoseconds) => ("", time.seconds.unsigned_abs(), nanoseconds),
        (true, 0) => ("-", time.seconds.unsigned_abs(), 0),
        (true, after) => ("-", time.seconds.unsigned_abs() - 1, 1_000_000_000 - after),
    };
    match nanoseconds {
        0 => format!("{sign}{seconds}"),
        nanoseconds => format!("{sign}{seconds}.{nanoseconds:09}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(pairs: &[(&str, &str)]) -> Metadata {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
        pairs.iter().map(pair).collect()
    }

    fn time(seconds: i64, nanoseconds: u32) -> Timestamp {
        Timestamp {
            seconds,
            nanoseconds,
        }
    }

    fn value<'m>(metadata: &'m Metadata, wanted: &str) -> Option<&'m str> {
        let (_, value) = metadata.iter().find(|(name, _)| name == wanted)?;
        std::str::from_utf8(value).ok()
    }

    #[test]
    fn what_s3fs_and_rclone_have_written_is_read() {
        let of_s3fs = metadata(&[
            ("mode", "33188"),
            ("uid", "1000"),
            ("gid", "100"),
            ("mtime", "1795839036"),
            ("atime", "1795839037"),
            ("ctime", "1795839038"),
        ]);
        let expected = Marks {
            file_type: Some(FileType::Regular),
            mode: Some(0o644),
            uid: Some(1000),
            gid: Some(100),
            modified: Some(time(1_795_839_036, 0)),
            accessed: Some(time(1_795_839_037, 0)),
            changed: Some(time(1_795_839_038, 0)),
            ..Marks::default()
        };
        assert_eq!(Marks::of(&of_s3fs), expected);
        let of_rclone = metadata(&[
            ("Mtime", "1795839036.16348071"),
            ("mode", "100755"),
            ("rdev", "801"),
            ("atime", "2026-11-28T00:00:00Z"),
        ]);
        let kept = Marks::of(&of_rclone);
        assert_eq!(kept.modified, Some(time(1_795_839_036, 163_480_710)));
        assert_eq!(
            (kept.file_type, kept.mode),
            (Some(FileType::Regular), Some(0o755))
        );
        assert_eq!(kept.device, Some((8, 1)));
        assert_eq!(kept.accessed, None);
    }

    #[test]
    fn modes_are_told_apart() {
        use FileType::{Directory, Fifo, Regular, Symlink};
        for (text, expected) in [
            ("33188", Some((Some(Regular), 0o644))),
            ("41471", Some((Some(Symlink), 0o777))),
            ("16877", Some((Some(Directory), 0o755))),
            ("40755", Some((Some(Directory), 0o755))),
            ("120777", Some((Some(Symlink), 0o777))),
            ("0100644", Some((Some(Regular), 0o644))),
            ("010644", Some((Some(Fifo), 0o644))),
            ("420", Some((None, 0o644))),
            ("0", Some((None, 0))),
            ("200000", None),
            ("99999", None),
            ("-33188", None),
            ("0x81a4", None),
            ("rw-r--r--", None),
        ] {
            assert_eq!(parse_mode(text), expected, "{text}");
        }
    }

    #[test]
    fn times_come_back_and_have_no_fraction_or_nine_digits() {
        for (value, text) in [
            (time(0, 0), "0"),
            (time(1, 500_000_000), "1.500000000"),
            (time(7, 1), "7.000000001"),
            (time(-5, 0), "-5"),
            (time(-6, 500_000_000), "-5.500000000"),
            (time(-1, 999_999_999), "-0.000000001"),
            (time(i64::MAX, 0), "9223372036854775807"),
        ] {
            assert_eq!(time_text(value), text);
            assert_eq!(parse_time(text), Some(value));
        }
        assert_eq!(parse_time("1.5"), Some(time(1, 500_000_000)));
        assert_eq!(parse_time("1.0000000019"), Some(time(1, 1)));
        assert_eq!(parse_time("1."), Some(time(1, 0)));
        assert!(!time_text(time(i64::MIN, 1)).is_empty());
    }

    #[test]
    fn what_makes_no_sense_is_ignored() {
        for text in [
            "",
            " ",
            "NaN",
            "inf",
            "+5",
            "--5",
            "1e9",
            "1.-5",
            ".5",
            "9223372036854775808",
            "-9223372036854775807.5.5",
            "99999999999999999999999999",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
        for text in ["-1", "4294967295", "4294967296", "1 000", "", "\u{661}"] {
            assert_eq!(parse_owner(text), None, "{text}");
        }
        let names = [
            "mode", "uid", "gid", "mtime", "atime", "ctime", "rdev", VERSION, WRITE,
        ];
        for bytes in [&b"\xff\xfe"[..], &[b'9'; 4096], b"\0", b"-", b"\xe2\x82"] {
            let metadata = names.map(|name| (name.to_owned(), bytes.to_vec()));
            assert_eq!(Marks::of(&metadata.to_vec()), Marks::default());
        }
    }

    #[test]
    fn any_text_is_read_or_ignored_and_what_was_read_is_read_again() {
        let letters = b"0123456789-.x aZ";
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..state % 24 {
                state = pagewell_base::mix::mix(state.wrapping_add(1));
                text.push(char::from(letters[(state % 16) as usize]));
            }
            state = pagewell_base::mix::mix(state.wrapping_add(1));
            let names = ["mode", "uid", "mtime", "rdev", VERSION];
            let kept = Marks::of(
                &names
                    .map(|name| (name.to_owned(), text.clone().into()))
                    .to_vec(),
            );
            let again = Marks::of(&kept.to(&Metadata::new()));
            let expected = Marks {
                version: kept.version.saturating_add(1),
                // Without one in the metadata it is that of a file.
                file_type: kept.file_type.or(kept.mode.map(|_| FileType::Regular)),
                ..kept
            };
            assert_eq!(again, expected, "{text}");
        }
    }

    #[test]
    fn what_others_have_put_there_stays_and_the_version_grows() {
        let others = metadata(&[
            ("colour", "blue"),
            ("MODE", "33188"),
            ("uid", "somebody"),
            (VERSION, "6"),
            (WRITE, "0123abcd"),
        ]);
        let kept = Marks {
            mode: Some(0o600),
            ..Marks::of(&others)
        };
        let next = kept.to(&others);
        let expected = metadata(&[
            ("colour", "blue"),
            ("uid", "somebody"),
            (VERSION, "7"),
            ("mode", "33152"),
        ]);
        assert_eq!(next, expected);
    }

    #[test]
    fn a_link_needs_no_mode_to_be_one() {
        let link = Marks {
            file_type: Some(FileType::Symlink),
            ..Marks::default()
        };
        assert_eq!(value(&link.to(&Metadata::new()), "mode"), Some("41471"));
    }

    #[test]
    fn all_of_it_stays_below_two_kilobytes() {
        let kept = Marks {
            mode: Some(0o644),
            uid: Some(1),
            gid: Some(1),
            modified: Some(time(1_795_839_036, 1)),
            accessed: Some(time(1_795_839_036, 1)),
            ..Marks::default()
        };
        for bytes in 0..BYTES_MAX {
            let others = vec![("x".to_owned(), vec![b'x'; bytes])];
            let all = kept.to(&others);
            assert_eq!(all.first(), others.first());
            let size = |(name, value): &(String, Vec<u8>)| PREFIX_BYTES + name.len() + value.len();
            let total: usize = all.iter().map(size).sum::<usize>() + ADDED_BYTES;
            assert!(total <= BYTES_MAX || all.len() == 1, "{bytes}");
        }
        assert_eq!(kept.to(&Metadata::new()).len(), 6);
        let nearly = vec![("x".to_owned(), vec![b'x'; 1800])];
        let some = kept.to(&nearly);
        assert!(value(&some, VERSION).is_some() && value(&some, "atime").is_none());
    }
}
