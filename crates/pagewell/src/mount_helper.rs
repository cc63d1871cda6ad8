//! The program as a helper of mount(8), `mount.pagewell` or `mount.fuse.pagewell`, for lines of
//! fstab, units of systemd and autofs: `mount.pagewell SOURCE DIRECTORY [-sfnvrw] [-t KIND] [-o
//! OPTIONS]`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

const NAMES: [&str; 2] = ["mount.pagewell", "mount.fuse.pagewell"];

/// The command line in words of `pagewell`, if this is the helper. Mounts of root are for all
/// users, as with mount(8).
pub(crate) fn command_line(arguments: Vec<OsString>) -> Vec<OsString> {
    let called = arguments.first().map(Path::new).and_then(Path::file_name);
    if !called.is_some_and(|name| NAMES.iter().any(|helper| name == OsStr::new(helper))) {
        return arguments;
    }
    let program = OsString::from("pagewell");
    let mut line = vec![program, OsString::from("mount")];
    if rustix::process::geteuid().is_root() {
        line.push(OsString::from("--allow-other"));
    }
    let mut words = arguments.into_iter().skip(1);
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("-t") => drop(words.next()),
            Some(word) if is_flags(word) => {
                // The other flags need nothing.
                let meant = [('r', "--read-only"), ('f', "--fake")];
                let meant = meant.iter().filter(|(flag, _)| word.contains(*flag));
                line.extend(meant.map(|(_, option)| OsString::from(option)));
            }
            _ => line.push(word),
        }
    }
    line
}

/// Whether these are flags of mount(8), one or several behind one dash.
fn is_flags(word: &str) -> bool {
    let flags = word.strip_prefix('-').unwrap_or_default();
    !flags.is_empty() && flags.chars().all(|flag| "sfnvrw".contains(flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let meant = command_line(words);
        let words: Vec<_> = meant.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ").replace(" --allow-other", "")
    }

    #[test]
    fn what_mount_calls_is_a_mount() {
        let line = "/sbin/mount.fuse.pagewell big.iso /mnt -n -t fuse.pagewell -o rw,noatime";
        assert_eq!(meant(line), "pagewell mount big.iso /mnt -o rw,noatime");
        assert_eq!(
            meant("mount.pagewell a b -r"),
            "pagewell mount a b --read-only"
        );
        assert_eq!(
            meant("mount.pagewell a b -fnv -o ro"),
            "pagewell mount a b --fake -o ro"
        );
        assert_eq!(
            meant("mount.pagewell a b -N /proc/1/ns/mnt"),
            "pagewell mount a b -N /proc/1/ns/mnt",
            "refused by name"
        );
        assert_eq!(meant("/usr/bin/pagewell ls -t"), "/usr/bin/pagewell ls -t");
    }
}
