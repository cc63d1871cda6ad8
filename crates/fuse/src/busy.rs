//! The programs that use a mount: something below it is open, their directory, or their program.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A program that uses a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its process.
    pub process: u32,
    /// Its name.
    pub name: String,
}

/// At most `most` programs that use what is below `place`, as far as this user may see. Touches
/// nothing below `place`, which may not answer.
#[must_use]
pub fn users_of(place: &Path, most: usize) -> Vec<User> {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|process| *process != std::process::id() && uses(*process, place))
        .take(most)
        .map(|process| User {
            process,
            name: name_of(process),
        })
        .collect()
}

fn name_of(process: u32) -> String {
    let name = std::fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

fn uses(process: u32, place: &Path) -> bool {
    let directory = PathBuf::from(format!("/proc/{process}"));
    let fixed = ["cwd", "root", "exe"].map(|link| directory.join(link));
    let open = std::fs::read_dir(directory.join("fd"));
    let open = open.into_iter().flatten().flatten().map(|file| file.path());
    fixed
        .into_iter()
        .chain(open)
        .any(|link| std::fs::read_link(link).is_ok_and(|target| is_below(&target, place)))
}

fn is_below(target: &Path, place: &Path) -> bool {
    // " (deleted)" at the end of a removed file does not change the directories above it.
    let rest = target
        .as_os_str()
        .as_bytes()
        .strip_prefix(place.as_os_str().as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_have_something_open_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        assert_eq!(users_of(&place, 5), []);
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .current_dir(&place)
            .spawn()
            .unwrap();
        let users = users_of(&place, 5);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(users.len(), 1);
        assert_eq!(
            (users[0].process, &users[0].name[..]),
            (child.id(), "sleep")
        );
        assert!(!is_below(Path::new("/mnt/ab"), Path::new("/mnt/a")));
        assert!(is_below(
            Path::new("/mnt/a/x (deleted)"),
            Path::new("/mnt/a")
        ));
    }
}
