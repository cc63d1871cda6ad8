//! Called by mount(8) as `mount.pagewell` or `mount.fuse.pagewell`, for lines of fstab, units of
//! systemd and autofs: `mount.pagewell SOURCE DIRECTORY [-sfnvrw] [-t KIND] [-o OPTIONS]`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Names that the program has as a helper.
const NAMES: [&str; 2] = ["mount.pagewell", "mount.fuse.pagewell"];

/// The command line that is meant, when the program was called as a helper. What root mounts this
/// way is for all users, as what mount(8) mounts is.
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
                // For the others: it mounts in the background, writes no table, and speaks only
                // when it must.
                let meant = [('r', "--read-only"), ('f', "--fake")];
                let meant = meant.iter().filter(|(flag, _)| word.contains(*flag));
                line.extend(meant.map(|(_, option)| OsString::from(option)));
            }
            _ => line.push(word),
        }
    }
    line
}

/// Whether these are flags that mount(8) passes on, one or several behind one dash.
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
