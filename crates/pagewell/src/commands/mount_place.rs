//! The directory that is mounted on: what is there already, and what must not be below it.
//!
//! A mount whose program was killed stays, and each use of it fails. The next mount takes it away,
//! so that starting the program again brings the files back.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pagewell_base::size;
use pagewell_fuse::{mounted_on, unmount_entry};

use crate::failure::{report, usage};

/// Takes away a dead mount, and refuses to mount a source a second time.
pub(super) fn make_way(place: &Path, source: &str) -> anyhow::Result<()> {
    let Ok(place) = resolved(place) else {
        return Ok(());
    };
    let Some(entry) = mounted_on(&place) else {
        return Ok(());
    };
    let shown = place.display();
    if entry.has_died() {
        unmount_entry(&entry, true)?;
        report(&format!(
            "{shown}: took away a mount whose program had died"
        ));
    } else if entry.is_ours() && entry.shows(source) {
        bail!("{shown}: {source} is mounted there already (pagewell umount {shown})");
    }
    Ok(())
}

/// The place without symbolic links. The mount's program may be gone: then the last name is taken
/// as it is.
pub(super) fn resolved(place: &Path) -> anyhow::Result<PathBuf> {
    if let Ok(found) = std::fs::canonicalize(place) {
        return Ok(found);
    }
    let shown = || place.display().to_string();
    let absolute = std::path::absolute(place).with_context(shown)?;
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.canonicalize().with_context(shown)?.join(name)),
        _ => Ok(absolute),
    }
}

/// A message on bytes that their store lacks.
pub(super) fn waits(bytes: u64) -> String {
    let size = size::display(bytes);
    format!("its store has not got {size}, which wait on this machine until it is mounted again")
}

/// Refuses folders of ours below the place: the mount would hide them.
pub(super) fn check_folders<'p>(
    place: &Path,
    folders: impl IntoIterator<Item = (&'static str, &'p Path)>,
) -> anyhow::Result<()> {
    let place = real(place)?;
    for (option, folder) in folders {
        if real(folder)?.starts_with(&place) {
            let (folder, place) = (folder.display(), place.display());
            return Err(usage(format!(
                "{option} {folder}: lies in {place}, where the mount hides it: name another folder"
            )));
        }
    }
    Ok(())
}

/// The path without symbolic links, as far as it is there.
fn real(path: &Path) -> anyhow::Result<PathBuf> {
    let absolute = std::path::absolute(path).with_context(|| path.display().to_string())?;
    let found = absolute.ancestors().find_map(|above| {
        let (found, rest) = (
            above.canonicalize().ok()?,
            absolute.strip_prefix(above).ok()?,
        );
        Some(found.components().chain(rest.components()).collect())
    });
    Ok(found.unwrap_or(absolute))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{USAGE, exit_code_of};

    #[test]
    fn a_folder_that_the_mount_would_hide_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join("place");
        std::fs::create_dir(&place).unwrap();
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&place, &link).unwrap();
        let checked = |folder: &Path| check_folders(&place, [("--staging-dir", folder)]);
        for hidden in [place.clone(), place.join("a/b"), link.join("a")] {
            let error = checked(&hidden).unwrap_err();
            assert_eq!(exit_code_of(&error), USAGE);
            let text = error.to_string();
            assert!(text.starts_with("--staging-dir "), "{text}");
        }
        for beside in ["places", "other/a", ""] {
            checked(&scratch.path().join(beside)).unwrap();
        }
    }
}
