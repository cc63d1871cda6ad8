//! How much memory may this process have?
//!
//! A process that takes more is killed with all that it has not written. The least limit of its
//! control group and of each around it counts: of version 2 (`memory.max`; `memory.high`, above
//! which the system takes memory back) or 1 (`memory.limit_in_bytes`).
//!
//! ```text
//!   /proc/self/cgroup     0::/system.slice/mount.service
//!   /sys/fs/cgroup/memory.max
//!   /sys/fs/cgroup/system.slice/memory.max
//!   /sys/fs/cgroup/system.slice/mount.service/memory.max
//! ```
//!
//! Known weaknesses: groups mounted elsewhere are not found; what other processes of the group use
//! is not subtracted.

use std::io::Read;
use std::path::{Path, PathBuf};

const GROUPS: &str = "/proc/self/cgroup";
const INFORMATION: &str = "/proc/meminfo";
const UNIFIED: &str = "/sys/fs/cgroup";
const MEMORY: &str = "/sys/fs/cgroup/memory";
const GROUPS_BYTES_MAX: u64 = 64 << 10;
/// Longest path of a group, in bytes: as for any path of the system.
const PATH_BYTES_MAX: usize = 4096;
const LIMIT_BYTES_MAX: u64 = 64;

/// The memory that this process may have, in bytes; [`u64::MAX`] when unknown.
#[must_use]
pub fn memory_bytes() -> u64 {
    let information = rustix::system::sysinfo();
    // The types differ between architectures.
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
    let bytes = (information.totalram as u64).saturating_mul(u64::from(information.mem_unit));
    let machine = if bytes == 0 { u64::MAX } else { bytes };
    let groups = read(Path::new(GROUPS), GROUPS_BYTES_MAX).unwrap_or_default();
    least(machine, &groups, |path| read(path, LIMIT_BYTES_MAX))
}

/// What programs can still have, in bytes; [`u64::MAX`] when unknown.
#[must_use]
pub fn memory_available_bytes() -> u64 {
    let text = read(Path::new(INFORMATION), GROUPS_BYTES_MAX).unwrap_or_default();
    available(&text).unwrap_or(u64::MAX)
}

fn available(information: &str) -> Option<u64> {
    let mut lines = information.lines();
    let line = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn read(path: &Path, bytes_max: u64) -> Option<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(bytes_max).read_to_string(&mut text).ok()?;
    Some(text)
}

fn least(machine: u64, groups: &str, read: impl Fn(&Path) -> Option<String>) -> u64 {
    let files = groups.lines().flat_map(limit_files);
    let limits = files.filter_map(|file| limit(&read(&file)?));
    limits.fold(machine, u64::min)
}

/// From a line `number:controllers:path`, with groups around it.
fn limit_files(line: &str) -> Vec<PathBuf> {
    let fields: Vec<_> = line.splitn(3, ':').collect();
    let [number, controllers, path] = fields[..] else {
        return Vec::new();
    };
    let (root, names): (_, &[&str]) = match controllers {
        "" if number == "0" => (UNIFIED, &["memory.max", "memory.high"]),
        _ if controllers.split(',').any(|name| name == "memory") => {
            (MEMORY, &["memory.limit_in_bytes"])
        }
        _ => return Vec::new(),
    };
    let mut group = PathBuf::from(root);
    let mut files: Vec<PathBuf> = names.iter().map(|name| group.join(name)).collect();
    if path.len() > PATH_BYTES_MAX {
        return files;
    }
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        // A group outside of what this process can see.
        if part == ".." {
            break;
        }
        group.push(part);
        files.extend(names.iter().map(|name| group.join(name)));
    }
    files
}

/// In bytes. `None`: no limit, or 0, which is written to give memory back.
fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| *bytes > 0)
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    const MACHINE: u64 = 64 << 30;

    /// What is least when the files have these texts.
    fn among(groups: &str, files: &[(&str, &str)]) -> u64 {
        least(MACHINE, groups, |path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn the_limit_of_a_container_counts() {
        let limit = [("/sys/fs/cgroup/memory.max", "1073741824\n")];
        assert_eq!(among("0::/\n", &limit), 1 << 30);
        assert_eq!(among("0::/a/b.service\n", &limit), 1 << 30, "of a parent");
        let own = [
            ("/sys/fs/cgroup/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/memory.max", "4294967296\n"),
            ("/sys/fs/cgroup/a/b.service/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/b.service/memory.high", "2147483648\n"),
            ("/sys/fs/cgroup/a/other/memory.max", "4096\n"),
        ];
        assert_eq!(among("0::/a/b.service\n", &own), 2 << 30);
        assert_eq!(among("0::/a\n", &own), 4 << 30);
    }

    #[test]
    fn the_first_version_counts_too() {
        let groups = "12:cpu,cpuacct:/x\n5:rdma,memory:/docker/7f:3\n1:name=systemd:/y\n0::/\n";
        let own = "/sys/fs/cgroup/memory/docker/7f:3/memory.limit_in_bytes";
        assert_eq!(among(groups, &[(own, "1048576\n")]), 1 << 20);
        // Not visible from inside, where the root is the container's.
        let root = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
        assert_eq!(among(groups, &[(root, "2097152\n")]), 2 << 20);
        assert_eq!(among(groups, &[(root, "9223372036854771712\n")]), MACHINE);
    }

    #[test]
    fn what_is_no_limit_limits_nothing() {
        let file = "/sys/fs/cgroup/memory.max";
        for text in [
            "",
            "\n",
            "max",
            "0",
            "-1",
            "1 GiB",
            "12x",
            "\0",
            "1e9",
            "99999999999999999999999",
            "18446744073709551615",
        ] {
            assert_eq!(among("0::/", &[(file, text)]), MACHINE, "{text:?}");
        }
        for groups in ["", ":", "0:", "::/", "0:memoryx:/", "x\n\n::::\n", "1::/"] {
            assert_eq!(among(groups, &[(file, "4096")]), MACHINE, "{groups:?}");
        }
    }

    #[test]
    fn no_path_leaves_the_groups() {
        for path in [
            "/../../etc",
            "/a/../../..",
            "//../",
            "/..",
            "../..",
            "/./..",
        ] {
            for file in limit_files(&format!("0::{path}")) {
                let inside = file.strip_prefix(UNIFIED).unwrap();
                let text = inside.to_str().unwrap();
                assert!(!text.contains("..") && !text.contains("etc"), "{file:?}");
            }
        }
        // What is around such a group counts still.
        assert_eq!(
            among("0::/../x", &[("/sys/fs/cgroup/memory.max", "8192")]),
            8192
        );
        let long = format!("0::/{}", "a/".repeat(1 << 20));
        assert_eq!(limit_files(&long).len(), 2);
    }

    #[test]
    fn what_is_available_is_said_by_the_system() {
        let text = "MemTotal:  24 kB\nMemFree: 1 kB\nMemAvailable:   12345 kB\nBuffers: 7 kB\n";
        assert_eq!(available(text), Some(12345 << 10));
        for odd in [
            "",
            "MemAvailable:",
            "MemAvailable: x kB",
            "MemAvailable: 7",
            "Mem: 1 kB",
        ] {
            assert_eq!(available(odd), None, "{odd}");
        }
        assert_eq!(available("MemAvailable: 18446744073709551615 kB"), None);
        assert!(memory_available_bytes() > 0);
    }

    #[test]
    fn files_are_read_up_to_a_bound() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("limit");
        std::fs::write(&path, "1".repeat(1 << 20)).unwrap();
        assert_eq!(read(&path, LIMIT_BYTES_MAX).unwrap().len(), 64);
        std::fs::write(&path, [0xff; 10]).unwrap();
        assert_eq!(read(&path, LIMIT_BYTES_MAX), None);
        assert_eq!(read(directory.path(), LIMIT_BYTES_MAX), None);
        assert!(memory_bytes() > 0);
    }
}
