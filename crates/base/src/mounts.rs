//! The kernel's list of mounts (`/proc/self/mountinfo`, proc(5)).

/// The mounts of this thread; empty where there is no list.
#[must_use]
pub fn mountinfo() -> Vec<u8> {
    std::fs::read("/proc/thread-self/mountinfo").unwrap_or_default()
}

/// The fields of each line: number, parent, device, root, place, options, more up to a dash, kind,
/// source, options of the file system.
pub fn fields(mounts: &[u8]) -> impl DoubleEndedIterator<Item = Vec<&[u8]>> {
    let lines = mounts.split(|byte| *byte == b'\n');
    lines.map(|line| line.split(|byte| *byte == b' ').collect())
}

/// Resolves the escapes of a path: a backslash and three octal digits.
#[must_use]
pub fn plain(escaped: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = after.get(3..).unwrap_or(&[]);
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mountinfo_are_read() {
        let mounts = b"22 27 0:21 / /proc rw - proc proc rw\n\
            122 27 8:1 /a\\040b /srv rw shared:1 - ext4 /dev/x rw\n33\n";
        let lines: Vec<_> = fields(mounts).collect();
        assert_eq!(lines[0][..4], [&b"22"[..], b"27", b"0:21", b"/"]);
        assert_eq!(lines[1][3..5], [&b"/a\\040b"[..], b"/srv"]);
        assert_eq!(plain(lines[1][3]), b"/a b");
        assert_eq!(plain(b"\\"), b"\\");
        assert_eq!(plain(b"a\\9"), b"a\\9");
        assert!(lines[2].get(3).is_none());
    }
}
