//! A record as it is on the disk.
//!
//! ```text
//!   pagewell staged file 1
//!   number 0000000000000007
//!   state journaled                      or: kept, and why
//!   bucket s3://bucket at http://host
//!   key dir/file
//!   token 4d5c...
//!   time 1795839036163480710 2026-11-29T13:30:36
//!   length 300
//!   base 100 200 "etag"                  bytes of it that stay, its length, its tag
//!   base-time 1795839036000000000
//!   metadata mode 33188
//!   bytes 0 100 0                        first, the one behind the last, the home
//!   sum 0 89ab...                        of each MiB
//!   end cdef...                          of all above
//! ```

use std::fmt::Write;
use std::time::SystemTime;

use pagewell_base::calendar;

use crate::places::{Part, joined};
use crate::record::{Base, Record};
use crate::sums::{CHUNK_BYTES, Sum, chunks};
use crate::text::{
    Lines, escaped, nanoseconds, sealed, time_of, unescaped, unescaped_text, unsealed,
};

/// Some two million parts.
pub const RECORD_BYTES_MAX: u64 = 64 << 20;
const HEADER: &str = "pagewell staged file 1";

/// What becomes of the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// To be uploaded by a replay.
    Journaled,
    /// For people, and why.
    Kept(String),
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Of the staged file.
    pub number: u64,
    /// The bucket.
    pub origin: String,
    /// What becomes of it.
    pub state: State,
    /// What the caller gave.
    pub record: Record,
    /// Where dirty bytes are.
    pub parts: Vec<Part>,
    /// Of all chunks of what is journaled.
    pub sums: Vec<Sum>,
}

impl Stored {
    /// The text.
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        // A `String` takes everything.
        let _ = self.write(&mut text);
        sealed(text)
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let record = &self.record;
        writeln!(text, "{HEADER}\nnumber {:016x}", self.number)?;
        match &self.state {
            State::Journaled => writeln!(text, "state journaled")?,
            State::Kept(reason) => writeln!(text, "state kept: {}", escaped(reason.as_bytes()))?,
        }
        writeln!(text, "bucket {}", escaped(self.origin.as_bytes()))?;
        writeln!(text, "key {}", escaped(record.key.as_bytes()))?;
        writeln!(text, "token {}", escaped(record.token.as_bytes()))?;
        writeln!(text, "time {}", time_text(record.journaled_at))?;
        writeln!(text, "length {}", record.length_bytes)?;
        if let Some(base) = &record.base {
            write!(text, "base {} {}", record.base_bytes, base.length_bytes)?;
            if let Some(etag) = &base.etag {
                write!(text, " {}", escaped(etag.as_bytes()))?;
            }
            writeln!(text)?;
            if let Some(time) = base.last_modified {
                writeln!(text, "base-time {}", time_text(time))?;
            }
        }
        for (name, value) in &record.metadata {
            let name = escaped(name.as_bytes()).replace(' ', "%20");
            writeln!(text, "metadata {name} {}", escaped(value))?;
        }
        for Part { span, home } in &self.parts {
            writeln!(text, "bytes {} {} {home}", span.0, span.1)?;
        }
        for Sum { chunk, checksum } in &self.sums {
            writeln!(text, "sum {chunk} {checksum:032x}")?;
        }
        Ok(())
    }

    /// `None`: no record.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut lines = Lines::new(unsealed(bytes)?);
        lines.take(HEADER).filter(|rest| rest.is_empty())?;
        let number = u64::from_str_radix(lines.take("number")?, 16).ok()?;
        let state = match lines.take("state")? {
            "journaled" => State::Journaled,
            other => State::Kept(unescaped_text(other.strip_prefix("kept: ")?)?),
        };
        let origin = unescaped_text(lines.take("bucket")?)?;
        let key = unescaped_text(lines.take("key")?)?;
        let token = unescaped_text(lines.take("token")?)?;
        let journaled_at = time(lines.take("time")?)?;
        let length_bytes = lines.take("length")?.parse().ok()?;
        let (base_bytes, base) = match lines.take("base") {
            Some(line) => {
                let (bytes, mut base) = decode_base(line)?;
                if let Some(line) = lines.take("base-time") {
                    base.last_modified = Some(time(line)?);
                }
                (bytes, Some(base))
            }
            None => (0, None),
        };
        let mut metadata = Vec::new();
        while let Some(line) = lines.take("metadata") {
            let (name, value) = line.split_once(' ')?;
            metadata.push((unescaped_text(name)?, unescaped(value)?));
        }
        let mut parts: Vec<Part> = Vec::new();
        while let Some(line) = lines.take("bytes") {
            let part = decode_part(line)?;
            let before = parts.last().map_or(0, |last| last.span.1);
            if part.span.0 < before || part.span.0 >= part.span.1 {
                return None;
            }
            parts.push(part);
        }
        let mut sums = Vec::new();
        while let Some(line) = lines.take("sum") {
            sums.push(decode_sum(line)?);
        }
        let record = Record {
            key,
            base,
            base_bytes,
            length_bytes,
            dirty: joined(&parts),
            metadata,
            token,
            journaled_at,
        };
        let stored = Self {
            number,
            origin,
            state,
            record,
            parts,
            sums,
        };
        let is_right = lines.is_at_end() && stored.record.fault().is_none() && stored.has_sums();
        is_right.then_some(stored)
    }

    /// Whether each chunk for a replay has its sum.
    fn has_sums(&self) -> bool {
        if self.state != State::Journaled {
            return true;
        }
        // First: else a record could ask for any number of chunks.
        let bytes = self.parts.iter().map(|part| part.span.1 - part.span.0);
        let bytes: u128 = bytes.map(u128::from).sum();
        let of_sums = self.sums.iter().map(|sum| sum.chunk);
        bytes <= self.sums.len() as u128 * u128::from(CHUNK_BYTES)
            && chunks(&self.parts)
                .iter()
                .map(|(chunk, _)| *chunk)
                .eq(of_sums)
    }
}

fn decode_base(line: &str) -> Option<(u64, Base)> {
    let mut words = line.splitn(3, ' ');
    let base_bytes = words.next()?.parse().ok()?;
    let length_bytes = words.next()?.parse().ok()?;
    let etag = match words.next() {
        Some(etag) => Some(unescaped_text(etag)?),
        None => None,
    };
    let base = Base {
        etag,
        last_modified: None,
        length_bytes,
    };
    Some((base_bytes, base))
}

fn decode_part(line: &str) -> Option<Part> {
    let mut words = line.split(' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let span = (number()?, number()?);
    let home = usize::try_from(number()?).ok().filter(|home| *home < 2)?;
    words.next().is_none().then_some(Part { span, home })
}

fn decode_sum(line: &str) -> Option<Sum> {
    let (chunk, checksum) = line.split_once(' ')?;
    Some(Sum {
        chunk: chunk.parse().ok()?,
        checksum: u128::from_str_radix(checksum, 16).ok()?,
    })
}

fn time_text(time: SystemTime) -> String {
    let nanoseconds = nanoseconds(time);
    let seconds = i64::try_from(nanoseconds.div_euclid(1_000_000_000)).unwrap_or(0);
    format!("{nanoseconds} {}", calendar::seconds_text(seconds))
}

fn time(line: &str) -> Option<SystemTime> {
    time_of(line.split(' ').next()?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn stored() -> Stored {
        let parts = [(0, 100, 0), (100, 200, 1), (250, 3 << 20, 0)];
        let parts = parts.map(|(start, end, home)| Part {
            span: (start, end),
            home,
        });
        Stored {
            number: 0x17,
            origin: "s3://bucket at http://127.0.0.1:9000".to_owned(),
            state: State::Journaled,
            record: Record {
                key: "dir//ü 100%\n".to_owned(),
                base: Some(Base {
                    etag: Some("\"a b\"".to_owned()),
                    last_modified: Some(UNIX_EPOCH - Duration::from_millis(1)),
                    length_bytes: 500,
                }),
                base_bytes: 220,
                length_bytes: 4 << 20,
                dirty: vec![(0, 200), (250, 3 << 20)],
                metadata: vec![
                    ("mode".to_owned(), b"33188".to_vec()),
                    ("a name".to_owned(), b"\xff\n x ".to_vec()),
                    ("empty".to_owned(), Vec::new()),
                ],
                token: "4d5c".to_owned(),
                journaled_at: UNIX_EPOCH + Duration::from_nanos(1_795_839_036_163_480_710),
            },
            sums: (0..3).map(|chunk| Sum { chunk, checksum: 9 }).collect(),
            parts: parts.to_vec(),
        }
    }

    #[test]
    fn records_come_back() {
        let one = stored();
        let text = one.encode();
        assert!(text.contains("\nkey dir//ü 100%25%0A\n"), "{text}");
        assert!(text.contains("2026-11-"), "{text}");
        assert_eq!(Stored::decode(text.as_bytes()).as_ref(), Some(&one));
        let mut other = one;
        other.state = State::Kept("it has changed:\n100%".to_owned());
        other.sums = Vec::new();
        other.record.base = None;
        other.record.base_bytes = 0;
        other.record.metadata.clear();
        assert_eq!(
            Stored::decode(other.encode().as_bytes()).as_ref(),
            Some(&other)
        );
        other.parts.clear();
        other.record.dirty.clear();
        other.record.base = Some(Base {
            etag: None,
            last_modified: None,
            length_bytes: 1,
        });
        assert_eq!(
            Stored::decode(other.encode().as_bytes()).as_ref(),
            Some(&other)
        );
    }

    #[test]
    fn wrong_ones_do_not() {
        let wrong = |change: fn(&mut Stored)| {
            let mut stored = stored();
            change(&mut stored);
            assert_eq!(Stored::decode(stored.encode().as_bytes()), None);
        };
        wrong(|stored| stored.sums.truncate(2));
        wrong(|stored| stored.parts.swap(0, 1));
        wrong(|stored| stored.parts[0].home = 2);
        wrong(|stored| stored.record.length_bytes = 300);
        wrong(|stored| stored.record.base_bytes = 501);
        let text = stored().encode();
        let more = sealed(format!("{}more\n", unsealed(text.as_bytes()).unwrap()));
        assert_eq!(Stored::decode(more.as_bytes()), None);
        for at in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[at] ^= 4;
            assert_eq!(Stored::decode(&damaged), None, "{at}");
            assert_eq!(Stored::decode(&text.as_bytes()[..at]), None, "{at}");
        }
    }

    /// Lines in any order, and any bytes in them, with a seal that is right.
    #[test]
    fn any_bytes_are_a_record_or_none() {
        bolero::check!()
            .with_type::<(Vec<u8>, Vec<u8>)>()
            .for_each(|(order, bytes)| {
                let text = stored().encode();
                let lines: Vec<&str> = text.lines().collect();
                let line = |at: &u8| lines.get(usize::from(*at) % lines.len());
                let picked: Vec<&str> = order.iter().filter_map(line).copied().collect();
                let mut text = picked.join("\n");
                text.push_str(&String::from_utf8_lossy(bytes));
                if let Some(found) = Stored::decode(sealed(text).as_bytes()) {
                    assert_eq!(Stored::decode(found.encode().as_bytes()), Some(found));
                }
                assert_eq!(Stored::decode(bytes), None);
            });
    }
}
