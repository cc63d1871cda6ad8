//! Files and block devices that were legs of a mirror.
//!
//! Version 0.2 kept a record of each leg: beside a file, of a block device in the state directory.
//! A write to one leg would make the others differ, so it is read-only until the record is removed.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::state;

/// The end of the name of every record.
const SUFFIX: &str = ".pagewell-mirror";
/// The folders with lasting names of disks, best first, and the prefix of their records.
const LASTING_NAMES: [(&str, &str); 2] = [
    ("/dev/disk/by-id", ""),
    ("/dev/disk/by-partuuid", "partuuid-"),
];

/// Why the file or block device at this path is not written.
pub(super) fn why_read_only(path: &Path) -> Option<String> {
    let real = path.canonicalize().ok()?;
    let records = match real.metadata().ok()?.file_type().is_block_device() {
        true => records_of_device(&real),
        false => vec![with_suffix(real.into())],
    };
    let record = records
        .into_iter()
        .find(|record| record.symlink_metadata().is_ok())?;
    Some(format!(
        "it was a leg of a mirror, and the other legs would differ from it; if that is right, \
         remove {}",
        record.display()
    ))
}

/// Records in root's state directory, and in this user's own.
fn records_of_device(device: &Path) -> Vec<PathBuf> {
    let states = [Some(PathBuf::from(state::SYSTEM)), state::base_directory()];
    let states: Vec<PathBuf> = states.into_iter().flatten().collect();
    let mut records = Vec::new();
    for (folder, prefix) in LASTING_NAMES {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries {
            let leads_here = entry.path().canonicalize().is_ok_and(|it| it == device);
            if leads_here {
                let mut name = OsString::from(prefix);
                name.push(entry.file_name());
                let file = with_suffix(name);
                let all = states.iter().map(|state| state.join("mirror").join(&file));
                records.extend(all);
            }
        }
    }
    records
}

fn with_suffix(mut name: OsString) -> PathBuf {
    name.push(SUFFIX);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_record_beside_it_is_only_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.img");
        fs::write(&file, b"bytes").unwrap();
        assert_eq!(why_read_only(&file), None);
        let record = folder.path().join("a.img.pagewell-mirror");
        fs::write(&record, b"").unwrap();
        let reason = why_read_only(&file).unwrap();
        let real = record.canonicalize().unwrap();
        assert!(
            reason.ends_with(&format!("remove {}", real.display())),
            "{reason}"
        );
        let other = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &other).unwrap();
        assert!(why_read_only(&other).is_some());
    }
}
