//! Extended attributes and access control lists of AAIP 2.0 (libisofs `doc/susp_aaip_2_0.txt`): AL
//! entries.
//!
//! The areas of all AL entries of a record are one run of component records; two components are a
//! name and a value:
//!
//! ```text
//! AL: | flags length bytes | flags length by        name, then value; CONTINUE (1) joins records
//! AL:   tes | flags length bytes | ...
//! ```
//!
//! A first byte of a name below 32 is a namespace. An empty name is that of both access control
//! lists, shown in Linux' form (acl(5)). The namespace `isofs.` is not shown.
//!
//! Bounds: 1 MiB of entries in a record (`susp`), [`ATTRIBUTES_MAX`] attributes; what is longer
//! than Linux takes is left out.

use std::ffi::CString;

use pagewell_fs::extended::{ExtendedAttribute, VALUE_BYTES_MAX};
use pagewell_fs::name::NAME_BYTES_MAX;

const ATTRIBUTES_MAX: usize = 1024;
const CONTINUE: u8 = 1;
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";
const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";
/// Version of the form of acl(5).
const LIST_VERSION: u32 = 2;
/// The number in an entry without user or group.
const NO_NUMBER: u32 = u32::MAX;

/// The attributes in the joined areas of AL entries, up to damage.
pub(super) fn attributes(areas: &[u8]) -> Vec<ExtendedAttribute> {
    let mut components = Components(areas);
    let mut found: Vec<ExtendedAttribute> = Vec::new();
    while let (Some(name), Some(value)) = (components.next(), components.next()) {
        if name.is_empty() {
            found.extend(lists(&value));
        } else if let Some(name) = full_name(&name)
            && value.len() <= VALUE_BYTES_MAX
        {
            found.push((name, value));
        }
        if found.len() >= ATTRIBUTES_MAX {
            break;
        }
    }
    found
}

struct Components<'a>(&'a [u8]);

impl Iterator for Components<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut component = Vec::new();
        loop {
            let ([flags, length], rest) = self.0.split_first_chunk()?;
            let (bytes, rest) = rest.split_at_checked(usize::from(*length))?;
            component.extend_from_slice(bytes);
            self.0 = rest;
            if flags & CONTINUE == 0 {
                return Some(component);
            }
        }
    }
}

fn full_name(recorded: &[u8]) -> Option<CString> {
    let (space, rest) = match recorded {
        [1, rest @ ..] => (&b""[..], rest),
        [2, rest @ ..] => (&b"system."[..], rest),
        [3, rest @ ..] => (&b"user."[..], rest),
        [5, rest @ ..] => (&b"trusted."[..], rest),
        [6, rest @ ..] => (&b"security."[..], rest),
        [0..32, ..] => return None,
        whole => (&b""[..], whole),
    };
    let name = [space, rest].concat();
    let is_shown = name.len() <= NAME_BYTES_MAX && !name.starts_with(b"isofs.");
    is_shown.then(|| CString::new(name).ok()).flatten()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ListEntry {
    tag: u16,
    number: u32,
    permissions: u16,
}

/// The access list in a value, and the list for new objects of a directory.
fn lists(mut value: &[u8]) -> Vec<ExtendedAttribute> {
    const QUALIFIER: u8 = 0x08;
    let mut both = [Vec::new(), Vec::new()];
    let mut which = 0;
    while let Some((flags, rest)) = value.split_first() {
        value = rest;
        let mut number = NO_NUMBER;
        if flags & QUALIFIER != 0 {
            let Some(qualifier) = qualifier(&mut value) else {
                break;
            };
            let digits = qualifier.iter().take(4);
            number = digits.fold(0, |number, byte| number << 8 | u32::from(*byte));
        }
        // Types without a meaning for Linux are left out.
        let tag = match flags >> 4 {
            1 => 0x01,
            10 => 0x02,
            3 => 0x04,
            12 => 0x08,
            5 => 0x10,
            6 => 0x20,
            8 => {
                which = 1;
                continue;
            }
            _ => continue,
        };
        both[which].push(ListEntry {
            tag,
            number,
            permissions: u16::from(flags & 0x07),
        });
    }
    let [access, default] = both;
    let named = [(ACCESS_LIST, access), (DEFAULT_LIST, default)];
    named.into_iter().filter_map(list).collect()
}

/// The bytes of a qualifier: parts behind their lengths; 128 in a length announces another.
fn qualifier(value: &mut &[u8]) -> Option<Vec<u8>> {
    let mut qualifier = Vec::new();
    loop {
        let (head, rest) = value.split_first()?;
        let (bytes, rest) = rest.split_at_checked(usize::from(head & 0x7f))?;
        qualifier.extend_from_slice(bytes);
        *value = rest;
        if head & 0x80 == 0 {
            return Some(qualifier);
        }
    }
}

fn list((name, mut entries): (&[u8], Vec<ListEntry>)) -> Option<ExtendedAttribute> {
    // The kernel's order.
    entries.sort_unstable();
    let mut value = LIST_VERSION.to_le_bytes().to_vec();
    for entry in &entries {
        value.extend(entry.tag.to_le_bytes());
        value.extend(entry.permissions.to_le_bytes());
        value.extend(entry.number.to_le_bytes());
    }
    let fits = !entries.is_empty() && value.len() <= VALUE_BYTES_MAX;
    fits.then(|| CString::new(name).ok().map(|name| (name, value)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(bytes: &[u8]) -> Vec<u8> {
        [&[0, u8::try_from(bytes.len()).unwrap()], bytes].concat()
    }

    fn shown(areas: &[u8]) -> Vec<(String, Vec<u8>)> {
        let found = attributes(areas).into_iter();
        found
            .map(|(name, value)| (name.into_string().unwrap(), value))
            .collect()
    }

    #[test]
    fn names_have_their_namespaces() {
        let pairs = [
            (&b"\x03abc"[..], Some("user.abc")),
            (b"user.def", Some("user.def")),
            (b"\x05t", Some("trusted.t")),
            (b"\x06s", Some("security.s")),
            (b"\x02x", Some("system.x")),
            (b"\x01\x03abc", Some("\x03abc")),
            (b"\x04nt", None),
            (b"isofs.ca", None),
            (b"\x07a", None),
            (b"a\0b", None),
        ];
        for (recorded, expected) in pairs {
            let area = [component(recorded), component(b"v")].concat();
            let expected: Vec<_> = expected
                .map(|name| (name.to_owned(), b"v".to_vec()))
                .into_iter()
                .collect();
            assert_eq!(shown(&area), expected);
        }
    }

    #[test]
    fn components_join_and_damage_ends_them() {
        let long = [&[1, 200][..], &[b'a'; 200], &[0, 2], b"bc"].concat();
        let good = [component(b"\x03x"), long].concat();
        let value = [&[b'a'; 200][..], b"bc"].concat();
        let expected = [("user.x".to_owned(), value)];
        assert_eq!(shown(&good), expected);
        for bad in [
            &b"\0"[..],
            b"\0\x09abc",
            b"\0\x02\x03a",
            b"\0\x02\x03a\x01\0",
        ] {
            assert_eq!(shown(&[&good[..], bad].concat()), expected, "{bad:?}");
        }
        let many = [component(b"\x03x"), component(b"")].concat().repeat(3000);
        assert_eq!(attributes(&many).len(), ATTRIBUTES_MAX);
    }

    /// The two examples of the specification.
    #[test]
    fn lists_are_as_linux_has_them() {
        let of = |value: &[u8]| shown(&[component(b""), component(value)].concat());
        let entry = |tag: u16, permissions: u16, number: u32| {
            let head = [tag.to_le_bytes(), permissions.to_le_bytes()].concat();
            [head, number.to_le_bytes().to_vec()].concat()
        };
        let list = |entries: &[Vec<u8>]| [vec![2, 0, 0, 0], entries.concat()].concat();
        let first = [0x16, 0xae, 1, 123, 0x34, 0xce, 2, 255, 254, 0x54, 0x64];
        let expected = list(&[
            entry(1, 6, NO_NUMBER),
            entry(2, 6, 123),
            entry(4, 4, NO_NUMBER),
            entry(8, 6, 65534),
            entry(0x10, 4, NO_NUMBER),
            entry(0x20, 4, NO_NUMBER),
        ]);
        let access = ("system.posix_acl_access".to_owned(), expected);
        assert_eq!(of(&first), [access]);
        let second = [0x17, 0x35, 0x65, 0x81, 0x17, 0x35, 0x57, 0x65, 0xaf, 1, 123];
        let found = of(&second);
        assert_eq!(found[0].1.len(), 4 + 3 * 8);
        let default = list(&[
            entry(1, 7, NO_NUMBER),
            entry(2, 7, 123),
            entry(4, 5, NO_NUMBER),
            entry(0x10, 7, NO_NUMBER),
            entry(0x20, 5, NO_NUMBER),
        ]);
        assert_eq!(found[1], ("system.posix_acl_default".to_owned(), default));
        // A translation of names is skipped, and what reaches behind the value ends it.
        let translated = [0x08, 9, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0x16, 0xae, 200, 1];
        assert_eq!(of(&translated)[0].1.len(), 4 + 8);
        assert_eq!(of(&[]), []);
    }
}
