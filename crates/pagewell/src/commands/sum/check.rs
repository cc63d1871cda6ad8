//! `pagewell sum -c`: a list of sums beside the files that it names.
//!
//! Names are paths inside the given LOCATION, which nothing leads out of. Without one they are
//! files of this machine, or, if there is none, places inside a source.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, anyhow};
use pagewell_fs::{Entry, Error};

use super::{Summer, escaped, sum_of};
use crate::engine::Engine;
use crate::escape;
use crate::failure::{self, usage};
use crate::location::{Follow, Location, Place};
use crate::output::OUTPUT;
use crate::stream::Stream;

const DIGITS: usize = 64;
/// The longest line: any path, escaped.
const LINE_BYTES_MAX: u64 = 16 << 10;

struct Listed {
    sum: String,
    name: Vec<u8>,
}

#[derive(Default)]
struct Tally {
    checked: u64,
    differ: u64,
    unread: u64,
    malformed: u64,
}

impl Summer {
    pub(super) fn check(
        &mut self,
        list: &OsString,
        locations: &[Location],
        quiet: bool,
        engine: &Engine,
    ) -> anyhow::Result<()> {
        let base = match locations {
            [] => None,
            [one] => Some(one.open_existing(Follow::Always, engine)?),
            _ => return Err(usage("sum -c LIST checks one LOCATION at a time")),
        };
        let shown = escape::text(list.as_bytes());
        let mut lines = open(list).with_context(|| shown.clone())?;
        let mut tally = Tally::default();
        while let Some(line) = next(&mut lines).with_context(|| shown.clone())? {
            let Some(listed) = parse(&line) else {
                // As sha256sum, which leaves comments out.
                tally.malformed += u64::from(!line.is_empty() && !line.starts_with(b"#"));
                continue;
            };
            tally.checked += 1;
            let found = match &base {
                Some(base) => self.sum_below(base, &listed.name),
                None => self.sum_named(&listed.name, engine),
            };
            let verdict = match found {
                Ok(sum) if sum == listed.sum => "OK",
                Ok(_) => {
                    tally.differ += 1;
                    "FAILED"
                }
                Err(error) => {
                    tally.unread += 1;
                    self.out.flush().context(OUTPUT)?;
                    self.progress.report(&failure::one_line(&error));
                    "FAILED open or read"
                }
            };
            if verdict != "OK" || !quiet {
                // Here sha256sum escapes only what would be two lines.
                let (mark, name) = match listed.name.contains(&b'\n') {
                    true => escaped(&listed.name),
                    false => (&b""[..], listed.name),
                };
                let line = [mark, &name, b": ", verdict.as_bytes(), b"\n"].concat();
                self.print(&line)?;
            }
        }
        self.out.flush().context(OUTPUT)?;
        self.conclude(&shown, &tally);
        Ok(())
    }

    fn conclude(&mut self, shown: &str, tally: &Tally) {
        let checked = tally.checked;
        if checked == 0 {
            self.progress
                .fail(&format!("{shown}: no line of it is a SHA-256 sum"));
            return;
        }
        if tally.malformed > 0 {
            let text = format!("{shown}: {} lines are no SHA-256 sums", tally.malformed);
            self.progress.report(&text);
        }
        for (count, what) in [
            (tally.unread, "files could not be read"),
            (tally.differ, "sums do not match"),
        ] {
            if count > 0 {
                self.progress
                    .fail(&format!("{shown}: {count} of {checked} {what}"));
            }
        }
    }

    fn sum_below(&mut self, (place, top): &(Place, Entry), name: &[u8]) -> anyhow::Result<String> {
        let label = place.label_of(name);
        let spot = place.tree.resolve_below(*top, name, true);
        let found = spot.and_then(|spot| spot.entry.ok_or(Error::NotFound));
        let entry = found.with_context(|| escape::text(&label))?;
        self.digest(&place.tree, &label, &entry).map(|(sum, _)| sum)
    }

    fn sum_named(&mut self, name: &[u8], engine: &Engine) -> anyhow::Result<String> {
        let path = Path::new(OsStr::from_bytes(name));
        if path.exists() {
            let shown = escape::text(name);
            let file = File::open(path).with_context(|| shown.clone())?;
            return sum_of(Stream::new(file, shown)).map(|(sum, _)| sum);
        }
        let location = Location::parse(path.as_os_str())?;
        let (place, entry) = location.open_existing(Follow::Always, engine)?;
        self.digest(&place.tree, name, &entry).map(|(sum, _)| sum)
    }
}

fn open(list: &OsString) -> std::io::Result<BufReader<File>> {
    let file = if list == "-" {
        File::from(std::io::stdin().as_fd().try_clone_to_owned()?)
    } else {
        File::open(list)?
    };
    Ok(BufReader::new(file))
}

/// The next line, without its end.
fn next(lines: &mut BufReader<File>) -> anyhow::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    Read::by_ref(lines)
        .take(LINE_BYTES_MAX)
        .read_until(b'\n', &mut line)?;
    if line.len() as u64 == LINE_BYTES_MAX {
        return Err(anyhow!("is no list of sums: a line is too long"));
    }
    if line.is_empty() {
        return Ok(None);
    }
    if line.ends_with(b"\n") {
        line.pop();
    }
    Ok(Some(line))
}

/// Parses a line of sha256sum; none for any other.
fn parse(line: &[u8]) -> Option<Listed> {
    let unmarked = line.strip_prefix(b"\\");
    let (sum, rest) = unmarked.unwrap_or(line).split_at_checked(DIGITS)?;
    let name = rest
        .strip_prefix(b"  ")
        .or_else(|| rest.strip_prefix(b" *"))?;
    if name.is_empty() || !sum.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let name = match unmarked {
        Some(_) => unescaped(name)?,
        None => name.to_vec(),
    };
    Some(Listed {
        sum: String::from_utf8(sum.to_ascii_lowercase()).ok()?,
        name,
    })
}

fn unescaped(name: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(name.len());
    let mut bytes = name.iter();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b'\\' => b'\\',
                _ => return None,
            },
            byte => *byte,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::super::line;
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written() {
        let sum = "0123456789abcdef".repeat(4);
        for name in [&b"a b"[..], b"\xff", b"new\nline", b"back\\slash\r", b"*x"] {
            let text = line(&sum, name);
            let listed = parse(text.strip_suffix(b"\n").unwrap()).unwrap();
            assert_eq!((listed.sum.as_str(), listed.name.as_slice()), (&*sum, name));
        }
        let binary = format!("{} *x", sum.to_uppercase());
        let listed = parse(binary.as_bytes()).unwrap();
        assert_eq!((listed.sum, listed.name), (sum.clone(), b"x".to_vec()));
        for wrong in [
            "",
            "# comment",
            &sum,
            &format!("{sum}  "),
            &format!("{sum} x"),
            &format!("{sum}0  x"),
            &format!("\\{sum}  x\\t"),
            &format!("\\{sum}  x\\"),
            &format!("g{}  x", &sum[1..]),
        ] {
            assert!(parse(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }
}
