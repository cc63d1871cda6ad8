//! The target of a symbolic link: path components (ECMA-167 4/14.16).
//!
//! ```text
//! 1, 2 root   3 ".."   4 "."   5 a name            type | length | version | identifier
//! ```
//!
//! Only a root that comes first makes a path absolute. A later one is a writer's form of an empty
//! name, `a//b`, and must not lead out of the tree.

use super::fields::Fields;
use super::text;

const TARGET_BYTES_MAX: usize = 4095;
/// Recorded bytes of a target: names of one character each take 6 for 2.
pub(crate) const COMPONENTS_BYTES_MAX: u64 = 64 << 10;
const COMPONENT_BYTES_MIN: usize = 4;

/// The target; `None` when its components are damaged or absent.
pub(crate) fn target(mut components: &[u8]) -> Option<Vec<u8>> {
    let mut is_absolute = false;
    let mut parts: Vec<Vec<u8>> = Vec::new();
    let mut is_first = true;
    while !components.is_empty() {
        let fields = Fields::new(components);
        let length = usize::from(fields.u8(1));
        let identifier = components.get(COMPONENT_BYTES_MIN..)?.get(..length)?;
        match fields.u8(0) {
            1 | 2 => is_absolute |= is_first,
            3 => parts.push(b"..".to_vec()),
            4 => parts.push(b".".to_vec()),
            5 => parts.push(component(identifier)?),
            _ => return None,
        }
        is_first = false;
        components = components.get(COMPONENT_BYTES_MIN + length..)?;
    }
    let path = parts.join(&b"/"[..]);
    let target = if is_absolute {
        [&b"/"[..], &path].concat()
    } else {
        path
    };
    (1..=TARGET_BYTES_MAX)
        .contains(&target.len())
        .then_some(target)
}

fn component(identifier: &[u8]) -> Option<Vec<u8>> {
    let mut name = text::decode(identifier)?.into_bytes();
    for byte in &mut name {
        if matches!(*byte, b'/' | 0) {
            *byte = b'_';
        }
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(kind: u8, identifier: &[u8]) -> Vec<u8> {
        let length = u8::try_from(identifier.len()).unwrap();
        [&[kind, length, 0, 0], identifier].concat()
    }

    fn text(parts: &[Vec<u8>]) -> Option<String> {
        target(&parts.concat()).map(|target| String::from_utf8(target).unwrap())
    }

    #[test]
    fn components_become_a_path() {
        let name = |name: &str| part(5, &[b"\x08", name.as_bytes()].concat());
        let root = || part(2, b"");
        assert_eq!(text(&[name("a"), name("b")]).unwrap(), "a/b");
        assert_eq!(text(&[root(), name("usr")]).unwrap(), "/usr");
        assert_eq!(text(&[part(1, b""), name("usr")]).unwrap(), "/usr");
        assert_eq!(text(&[root()]).unwrap(), "/");
        let dots = [part(3, b""), part(4, b""), name("x")];
        assert_eq!(text(&dots).unwrap(), ".././x");
        assert_eq!(text(&[name("a"), root(), name("b")]).unwrap(), "a/b");
        assert_eq!(text(&[root(), root(), name("b")]).unwrap(), "/b");
        assert_eq!(text(&[name("a/b\0c")]).unwrap(), "a_b_c");
        let wide = part(5, &[16, 0x20, 0xac]);
        assert_eq!(text(&[wide]).unwrap(), "€");
    }

    #[test]
    fn damaged_components_are_no_target() {
        assert_eq!(text(&[]), None);
        assert_eq!(text(&[part(6, b"x")]), None);
        assert_eq!(text(&[part(5, b"\x07x")]), None);
        assert_eq!(target(&[5, 9, 0, 0, 8, b'x']), None, "past the end");
        assert_eq!(target(&[5, 0, 0]), None);
        let long = vec![part(5, &[&[8][..], &[b'x'; 250]].concat()); 20];
        assert_eq!(text(&long), None, "over 4095 bytes");
    }
}
