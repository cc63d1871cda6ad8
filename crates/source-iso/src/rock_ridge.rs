//! Rock Ridge (RRIP 1.12, IEEE P1282): POSIX names, modes, links and times in system use entries.
//!
//! Writers differ, so the length of each entry decides its form: PX with or without a serial
//! number, TF with 7- or 17-byte stamps. The first PX and the first complete name win.

use pagewell_fs::name::NAME_BYTES_MAX;
use pagewell_fs::{Result, Timestamp};

use super::susp::Continuation;
use super::time;
use super::volume::BothEndian;
use super::zisofs::Compression;

/// `PATH_MAX` of Linux without its NUL.
const TARGET_BYTES_MAX: usize = 4095;

const CONTINUES: u8 = 0x01;
const CURRENT: u8 = 0x02;
const PARENT: u8 = 0x04;
const ROOT: u8 = 0x08;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Posix {
    /// `st_mode`.
    pub mode: u32,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    /// The same for all names of an object; 0 when not recorded.
    pub serial: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub created: Option<Timestamp>,
    pub modified: Option<Timestamp>,
    pub accessed: Option<Timestamp>,
    pub attributes: Option<Timestamp>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RockRidge {
    name: Vec<u8>,
    name_complete: bool,
    name_ignored: bool,
    pub(super) posix: Option<Posix>,
    /// High and low word of the device number (PN).
    pub(super) device: Option<(u32, u32)>,
    pub(super) times: Times,
    target: Option<Target>,
    /// First block of a directory that was moved elsewhere (CL).
    pub(super) child: Option<u32>,
    /// First block of the parent from which this directory was moved (PL).
    pub(super) parent: Option<u32>,
    /// A directory's place after a move, not part of the tree (RE).
    pub(super) moved_here: bool,
    /// ZF, Z2.
    pub compression: Option<Compression>,
    pub has_bad_compression: bool,
    /// The data is a table of a sparse file (SF).
    pub(super) sparse: bool,
}

#[derive(Clone, Debug, Default)]
struct Target {
    bytes: Vec<u8>,
    component_open: bool,
    /// The last component was a slash (ROOT): the next one needs none.
    after_root: bool,
    entry_open: bool,
    damaged: bool,
}

impl RockRidge {
    pub(super) fn read(area: &[u8], continuation: &mut Continuation<'_>) -> Result<Self> {
        let mut found = Self::default();
        continuation.walk(area, &mut |signature, entry| found.take(signature, entry))?;
        Ok(found)
    }

    pub(super) fn name(&self) -> Option<&[u8]> {
        let bad = self.name_ignored || matches!(self.name.as_slice(), b"" | b"." | b"..");
        (!bad).then_some(self.name.as_slice())
    }

    pub(super) fn has_bad_name(&self) -> bool {
        (self.name_complete || !self.name.is_empty()) && self.name().is_none()
    }

    /// Target of a symbolic link: `None` without SL entries, `Some(None)` when it is damaged.
    pub(super) fn target(&self) -> Option<Option<&[u8]>> {
        self.target.as_ref().map(Target::whole)
    }

    fn take(&mut self, signature: [u8; 2], entry: &[u8]) {
        match &signature {
            b"NM" => self.take_name(entry),
            b"PX" => self.posix = self.posix.or_else(|| posix(entry)),
            b"PN" => {
                let word = |offset| BothEndian::little(entry, offset);
                self.device = self.device.or_else(|| Some((word(4)?, word(12)?)));
            }
            b"TF" => self.take_times(entry),
            b"SL" => self.target.get_or_insert_default().take(entry),
            b"CL" => self.child = self.child.or_else(|| BothEndian::little(entry, 4)),
            b"PL" => self.parent = self.parent.or_else(|| BothEndian::little(entry, 4)),
            b"RE" => self.moved_here = true,
            b"ZF" | b"Z2" => {
                let parsed = Compression::parse(entry);
                self.has_bad_compression |= parsed.is_none();
                self.compression = self.compression.or(parsed);
            }
            b"SF" => self.sparse = true,
            _ => {}
        }
    }

    fn take_name(&mut self, entry: &[u8]) {
        let Some((flags, part)) = entry.get(4..).and_then(<[u8]>::split_first) else {
            return;
        };
        if self.name_complete {
            return;
        }
        self.name_ignored |= flags & !CONTINUES != 0;
        self.name_complete = flags & CONTINUES == 0;
        let free = NAME_BYTES_MAX - self.name.len().min(NAME_BYTES_MAX);
        self.name.extend(part.iter().take(free));
    }

    fn take_times(&mut self, entry: &[u8]) {
        const LONG_FORM: u8 = 0x80;
        let Some((flags, mut rest)) = entry.get(4..).and_then(<[u8]>::split_first) else {
            return;
        };
        let slots = [
            &mut self.times.created,
            &mut self.times.modified,
            &mut self.times.accessed,
            &mut self.times.attributes,
        ];
        for (bit, slot) in slots.into_iter().enumerate() {
            if flags & (1 << bit) == 0 {
                continue;
            }
            let (stamp, length) = if flags & LONG_FORM != 0 {
                (time::long(rest), 17)
            } else {
                (time::short(rest), 7)
            };
            *slot = slot.or(stamp);
            rest = rest.get(length..).unwrap_or(&[]);
        }
    }
}

impl Target {
    /// `None` when the target is damaged or has no end: the rest of a path leads elsewhere.
    fn whole(&self) -> Option<&[u8]> {
        let is_cut = self.component_open || self.entry_open;
        (!self.damaged && !is_cut && !self.bytes.is_empty()).then_some(&*self.bytes)
    }

    fn take(&mut self, entry: &[u8]) {
        self.entry_open = entry.get(4).is_some_and(|flags| flags & CONTINUES != 0);
        let mut rest = entry.get(5..).unwrap_or(&[]);
        while !rest.is_empty() {
            let component = rest.split_first_chunk::<2>().and_then(|(head, tail)| {
                let [flags, length] = *head;
                tail.split_at_checked(usize::from(length))
                    .map(|(text, later)| (flags, text, later))
            });
            let Some((flags, text, later)) = component else {
                self.damaged = true;
                return;
            };
            rest = later;
            self.add(flags, text);
        }
    }

    /// Adds a component (RRIP 1.12, clause 4.1.3.1). ROOT as the first makes a path absolute;
    /// writers also record an empty component so (`a//b`). An empty first component is ignored.
    fn add(&mut self, flags: u8, text: &[u8]) {
        if !self.component_open && !self.bytes.is_empty() && !self.after_root {
            self.bytes.push(b'/');
        }
        self.after_root = flags & ROOT != 0;
        match flags & !CONTINUES {
            0 => self.bytes.extend_from_slice(text),
            CURRENT => self.bytes.push(b'.'),
            PARENT => self.bytes.extend_from_slice(b".."),
            ROOT => self.bytes.push(b'/'),
            _ => self.damaged = true,
        }
        self.component_open = flags & CONTINUES != 0;
        self.damaged |= self.bytes.len() > TARGET_BYTES_MAX || text.contains(&0);
        self.bytes.truncate(TARGET_BYTES_MAX + 1);
    }
}

fn posix(entry: &[u8]) -> Option<Posix> {
    let field = |offset| BothEndian::little(entry, offset);
    Some(Posix {
        mode: field(4)?,
        links: field(12)?,
        uid: field(20)?,
        gid: field(28)?,
        serial: field(36).unwrap_or(0),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Skips {
    pub root: usize,
    pub others: usize,
}

/// Whether a root directory's system use entries announce Rock Ridge, and where entries begin. SP
/// must be there with its check bytes, at the start or after 14 bytes of CD-XA. Of ER entries, if
/// any, one must name Rock Ridge.
pub(super) fn announced(area: &[u8], continuation: &mut Continuation<'_>) -> Result<Option<Skips>> {
    const CD_XA_BYTES: usize = 14;
    let announcement = |root: usize| {
        let area = area.get(root..)?;
        match area.get(..7)? {
            [b'S', b'P', 7..=255, _, 0xbe, 0xef, others] => {
                let others = usize::from(*others);
                Some((area, Skips { root, others }))
            }
            _ => None,
        }
    };
    let Some((entries, skips)) = announcement(0).or_else(|| announcement(CD_XA_BYTES)) else {
        return Ok(None);
    };
    let (mut extensions, mut known) = (0, 0);
    continuation.walk(entries, &mut |signature, entry| {
        if let (b"ER", Some(identifier)) = (&signature, extension_identifier(entry)) {
            extensions += 1;
            known += i32::from(matches!(
                identifier,
                b"RRIP_1991A" | b"IEEE_P1282" | b"IEEE_1282"
            ));
        }
    })?;
    Ok((extensions == 0 || known > 0).then_some(skips))
}

fn extension_identifier(entry: &[u8]) -> Option<&[u8]> {
    let length = usize::from(*entry.get(4)?);
    entry.get(8..)?.get(..length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(entries: &[(&[u8; 2], &[u8])]) -> RockRidge {
        let mut found = RockRidge::default();
        for (signature, data) in entries {
            let length = u8::try_from(data.len() + 4).unwrap();
            let entry = [&signature[..], &[length, 1], data].concat();
            found.take(**signature, &entry);
        }
        found
    }

    #[test]
    fn names_join_while_they_continue() {
        let two = taken(&[(b"NM", b"\x01long "), (b"NM", b"\0name"), (b"NM", b"\0!")]);
        assert_eq!(two.name(), Some(&b"long name"[..]));
        for bad in [&b"\x02"[..], b"\x04", b"\x20x", b"\0", b"\0.", b"\0..", b""] {
            assert_eq!(taken(&[(b"NM", bad)]).name(), None, "{bad:?}");
        }
        let part = [&b"\x01"[..], &[b'n'; 200]].concat();
        let long = taken(&[(b"NM", &part), (b"NM", &part)]);
        assert_eq!(long.name().unwrap().len(), 255);
    }

    #[test]
    fn links_are_built_from_components() {
        let target = |parts: &[&[u8]]| {
            let entries: Vec<_> = parts.iter().map(|part| (b"SL", *part)).collect();
            taken(&entries)
                .target()
                .map(|target| target.map(<[u8]>::to_vec))
        };
        let some = |text: &[u8]| Some(Some(text.to_vec()));
        assert_eq!(target(&[b"\0\x08\0\0\x03usr\0\x03lib"]), some(b"/usr/lib"));
        assert_eq!(target(&[b"\0\x04\0\x02\0\0\x01a"]), some(b".././a"));
        assert_eq!(target(&[b"\x01\x01\x02ab", b"\0\0\x02cd"]), some(b"abcd"));
        assert_eq!(target(&[b"\x01\0\x02ab", b"\0\0\x02cd"]), some(b"ab/cd"));
        assert_eq!(target(&[b"\0\0\x01a\x08\0\0\x01b"]), some(b"a//b"));
        assert_eq!(
            target(&[b"\0\0\x03usr\x08\0", b"\0\0\x03lib"]),
            some(b"usr//lib")
        );
        assert_eq!(target(&[b"\0\x08\0\x08\0\0\x01b"]), some(b"//b"));
        assert_eq!(target(&[b"\0\0\x01a\x08\0"]), some(b"a//"));
        assert_eq!(target(&[b"\0\x04\0\x08\0\0\x01b"]), some(b"..//b"));
        assert_eq!(
            target(&[b"\0\x01\x01a\x08\0\0\x01b"]),
            some(b"a/b"),
            "open, then ROOT"
        );
        assert_eq!(
            target(&[b"\0\0\x01a\0\0\0\x01b"]),
            some(b"a//b"),
            "an empty component"
        );
        assert_eq!(target(&[b"\0\0\0\0\x01b"]), some(b"b"), "empty, and first");
        assert_eq!(target(&[b"\0\0\x09short"]), Some(None), "past the entry");
        assert_eq!(target(&[b"\0\0"]), Some(None), "half a component");
        assert_eq!(target(&[b"\0"]), Some(None), "nothing at all");
        let long = [&b"\x01\x01\xc8"[..], &[b'x'; 200]].concat();
        let with_end = |count| {
            let mut parts = vec![&long[..]; count];
            parts.push(b"\0\0\x01x");
            target(&parts)
        };
        assert_eq!(with_end(20).unwrap().unwrap().len(), 4001);
        assert_eq!(with_end(21), Some(None), "over 4095 bytes");
        assert_eq!(target(&[b"\x01\0\x01a"]), Some(None), "no other entry");
        assert_eq!(target(&[b"\0\x01\x01a"]), Some(None), "half a component");
        assert_eq!(taken(&[]).target(), None);
    }

    #[test]
    fn times_are_taken_only_from_inside_the_entry() {
        let stamp = [100, 1, 1, 0, 0, 0, 0];
        let both = [&[0x06][..], &stamp, &stamp].concat();
        let times = taken(&[(b"TF", &both)]).times;
        assert!(times.modified.is_some() && times.accessed.is_some());
        let short = taken(&[(b"TF", &both[..14])]).times;
        assert!(short.modified.is_some() && short.accessed.is_none());
        let long = [&[0x81][..], b"2100010100000050\0"].concat();
        let times = taken(&[(b"TF", &long)]).times;
        assert_eq!(times.created.unwrap().seconds, 4_102_444_800);
    }

    #[test]
    fn posix_attributes_of_both_lengths() {
        let field = |value: u32| [value.to_le_bytes(), value.to_be_bytes()].concat();
        let mut data = [field(0o100_644), field(2), field(3), field(4)].concat();
        let short = taken(&[(b"PX", &data)]).posix.unwrap();
        assert_eq!((short.mode, short.links, short.serial), (0o100_644, 2, 0));
        data.extend(field(77));
        assert_eq!(taken(&[(b"PX", &data)]).posix.unwrap().serial, 77);
        assert_eq!(taken(&[(b"PX", &data[..31])]).posix, None);
    }
}
