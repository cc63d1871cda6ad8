//! Where the record of a leg is kept.
//!
//! | leg | record |
//! |---|---|
//! | a regular file | beside it, `PATH.pagewell-mirror`, so that both are moved together |
//! | a block device | `mirror/NAME.pagewell-mirror` in the state directory |
//! | a stripe or a model | that of its first part |
//! | a mirror in a mirror | that of its first part, with `-outer` behind the name |
//! | memory | none: it ends with the program |
//!
//! `/dev/sdb` may be another disk after the next start, and a record that is taken for that of
//! another disk makes a stale leg a good one. So the name of a block device is the first of its
//! names in `/dev/disk/by-id`, else in `/dev/disk/by-partuuid`; names that were given to a
//! volume do not count, as another volume may get them. A device without such a name has no
//! record, and its mirror can only be read. So has a file whose file system does not keep when it
//! was made: nothing would tell it from another in its place.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pagewell_base::files::folder_of;

use crate::state;
use crate::storage::grammar::Storage;

/// What the name of every record ends with.
const SUFFIX: &str = ".pagewell-mirror";
/// Names of disks that stay when the order in which they are found changes.
const LASTING_NAMES: &str = "/dev/disk";
/// The folders with such names, best first, and what stands before a name from there.
const LASTING_KINDS: [(&str, &str); 2] = [("by-id", ""), ("by-partuuid", "partuuid-")];
/// What names begin with that follow those which were given to a volume or an array.
const GIVEN_NAMES: [&[u8]; 2] = [b"dm-name-", b"md-name-"];
/// Below the state directory.
const FOLDER: &str = "mirror";

/// Where the record of a leg is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In this file, which need not be there.
    File(PathBuf),
    /// Nowhere: the leg is zeros in memory.
    Zeros,
    /// Nowhere: a part of the leg is memory.
    Mixed,
    /// Nowhere: this block device has no name that lasts.
    Nameless(PathBuf),
    /// Nowhere: when this file was made is not known.
    Timeless(PathBuf),
}

impl Place {
    /// For this leg. One that is not there may have a record beside it.
    pub(crate) fn of(leg: &Storage) -> anyhow::Result<Self> {
        match leg {
            Storage::Path(path) => of_path(path),
            Storage::Ram(_) => Ok(Self::Zeros),
            Storage::Model(_, inner) => Self::of(inner),
            Storage::Stripe(_, parts) => Self::of_parts(parts),
            Storage::Mirror(parts) => Ok(match Self::of_parts(parts)? {
                Self::File(path) => Self::File(with_suffix(&path, "-outer")),
                nowhere => nowhere,
            }),
        }
    }

    fn of_parts(parts: &[Storage]) -> anyhow::Result<Self> {
        let places = parts.iter().map(Self::of);
        Ok(Self::of_all(&places.collect::<anyhow::Result<Vec<_>>>()?))
    }

    /// For a whole of parts with these places: that of the first, when each has a file.
    pub(super) fn of_all(places: &[Self]) -> Self {
        let is_nameless = |place: &&Self| matches!(place, Self::Nameless(_) | Self::Timeless(_));
        if places.iter().all(|place| *place == Self::Zeros) {
            Self::Zeros
        } else if let Some(nameless) = places.iter().find(is_nameless) {
            nameless.clone()
        } else if places.iter().all(|place| place.file().is_some()) {
            places.first().map_or(Self::Mixed, Self::clone)
        } else {
            Self::Mixed
        }
    }

    /// The file of the record.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            _ => None,
        }
    }
}

/// There is nowhere to keep a record of a block device.
#[derive(Debug, thiserror::Error)]
#[error("no home directory to keep the record of a mirror in")]
struct Homeless;

/// Whether a place is not known because this user has none, or may not look there: then this
/// user has made no record there, either.
pub(super) fn is_out_of_reach(error: &anyhow::Error) -> bool {
    let denied = |error: &std::io::Error| error.kind() == ErrorKind::PermissionDenied;
    error.is::<Homeless>() || error.downcast_ref().is_some_and(denied)
}

/// The record of a file or block device that is a leg by itself.
fn of_path(path: &Path) -> anyhow::Result<Place> {
    let shown = || path.display().to_string();
    let real = match path.canonicalize() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(Place::File(with_suffix(&as_if_there(path), SUFFIX)));
        }
        real => real.with_context(shown)?,
    };
    let metadata = real.metadata().with_context(shown)?;
    if !metadata.file_type().is_block_device() {
        if metadata.created().is_err() {
            return Ok(Place::Timeless(real));
        }
        return Ok(Place::File(with_suffix(&real, SUFFIX)));
    }
    let Some(name) = lasting_name(&real) else {
        return Ok(Place::Nameless(real));
    };
    let file = with_suffix(Path::new(&name), SUFFIX);
    let file = in_state_directory(&file, Path::new(state::SYSTEM), state::base_directory())?;
    Ok(Place::File(file))
}

/// Where a file that is gone was.
fn as_if_there(path: &Path) -> PathBuf {
    match (folder_of(path).canonicalize(), path.file_name()) {
        (Ok(parent), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

/// [`device_name`] on this machine.
pub(super) fn lasting_name(device: &Path) -> Option<OsString> {
    device_name(device, Path::new(LASTING_NAMES))
}

/// Root's record if there is one, for it is about the same device whoever asks; else one's own.
fn in_state_directory(file: &Path, system: &Path, own: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let shared = system.join(FOLDER).join(file);
    match shared.symlink_metadata() {
        Ok(_) => return Ok(shared),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => {
            let shown = shared.display();
            return Err(error).with_context(|| format!("{shown}: a leg may have a record there"));
        }
    }
    let own = own.ok_or(Homeless)?;
    Ok(own.join(FOLDER).join(file))
}

/// The name that a device at this canonical path keeps, as a file name.
fn device_name(device: &Path, lasting_names: &Path) -> Option<OsString> {
    let leads_here = |entry: &fs::DirEntry| {
        let target = entry.path().canonicalize();
        target.is_ok_and(|target| target == device)
    };
    LASTING_KINDS.iter().find_map(|(folder, prefix)| {
        let entries = fs::read_dir(lasting_names.join(folder));
        let entries = entries.into_iter().flatten().flatten();
        let names = entries.filter(leads_here).map(|entry| entry.file_name());
        let is_given = |name: &OsString| {
            let name = name.as_encoded_bytes();
            GIVEN_NAMES.iter().any(|given| name.starts_with(given))
        };
        let names = names.filter(|name| !is_given(name));
        let mut whole = OsString::from(prefix);
        whole.push(names.min()?);
        Some(whole)
    })
}

fn with_suffix(path: &Path, suffix: impl AsRef<OsStr>) -> PathBuf {
    let mut whole = path.as_os_str().to_owned();
    whole.push(suffix);
    whole.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Place {
        Place::of(&Storage::parse(text.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn each_kind_of_leg_has_its_place() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let shown = base.display();
        for name in ["a", "b", "c"] {
            fs::write(base.join(name), "x").unwrap();
        }
        std::os::unix::fs::symlink("a", base.join("link")).unwrap();
        let file = |name: &str| Place::File(base.join(name));
        for (text, expected) in [
            (format!("{shown}/a"), file("a.pagewell-mirror")),
            (format!("{shown}/link"), file("a.pagewell-mirror")),
            (format!("model:dvd:{shown}/b"), file("b.pagewell-mirror")),
            (
                format!("stripe:4k:{shown}/b,{shown}/a"),
                file("b.pagewell-mirror"),
            ),
            (
                format!("mirror:(stripe:4k:{shown}/c,{shown}/a),{shown}/b"),
                file("c.pagewell-mirror-outer"),
            ),
            ("ram:4k".to_owned(), Place::Zeros),
            ("stripe:4k:ram:4k,ram:4k".to_owned(), Place::Zeros),
            (format!("stripe:4k:ram:4k,{shown}/a"), Place::Mixed),
        ] {
            assert_eq!(place(&text), expected, "{text}");
        }
        // What is gone may have left its record.
        assert_eq!(
            place(&format!("{shown}/missing")),
            file("missing.pagewell-mirror")
        );
    }

    #[test]
    fn a_disk_goes_by_its_lasting_name() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        for folder in ["by-id", "by-partuuid"] {
            fs::create_dir(base.join(folder)).unwrap();
        }
        for (name, disk) in [
            ("by-id/wwn-2", "sda"),
            ("by-id/ata-9", "sda"),
            ("by-id/ata-1", "sdb"),
            ("by-partuuid/00", "sda"),
            ("by-partuuid/77", "vda1"),
            ("by-id/dm-name-data", "dm-0"),
            ("by-id/dm-uuid-LVM-1", "dm-0"),
            ("by-id/md-name-host:0", "md0"),
        ] {
            fs::write(base.join(disk), "").unwrap();
            std::os::unix::fs::symlink(base.join(disk), base.join(name)).unwrap();
        }
        let name = |disk| device_name(&base.join(disk), &base);
        assert_eq!(name("sda").unwrap(), "ata-9");
        assert_eq!(name("sdb").unwrap(), "ata-1");
        assert_eq!(name("vda1").unwrap(), "partuuid-77");
        assert_eq!(
            name("dm-0").unwrap(),
            "dm-uuid-LVM-1",
            "names can be given again"
        );
        assert_eq!(name("md0"), None);
        assert_eq!(name("loop0"), None);
        assert_eq!(device_name(&base.join("sda"), &base.join("nothing")), None);
    }

    #[test]
    fn the_record_of_root_counts_for_everybody() {
        let base = tempfile::tempdir().unwrap();
        let (system, own) = (base.path().join("system"), base.path().join("own"));
        let file = Path::new("disk.pagewell-mirror");
        let find = || in_state_directory(file, &system, Some(own.clone()));
        assert_eq!(find().unwrap(), own.join("mirror/disk.pagewell-mirror"));
        fs::create_dir_all(system.join("mirror")).unwrap();
        fs::write(system.join("mirror").join(file), "").unwrap();
        assert_eq!(find().unwrap(), system.join("mirror/disk.pagewell-mirror"));
        let elsewhere = in_state_directory(file, &base.path().join("nothing"), None);
        let error = elsewhere.unwrap_err();
        assert!(error.to_string().contains("home") && is_out_of_reach(&error));
        let denied = std::io::Error::from(ErrorKind::PermissionDenied);
        let denied: anyhow::Result<()> = Err(denied).context("/var/lib");
        assert!(is_out_of_reach(&denied.unwrap_err()));
        // In the way of the folder.
        fs::write(base.path().join("file"), "").unwrap();
        let garbled = in_state_directory(file, &base.path().join("file"), Some(own));
        assert!(!is_out_of_reach(&garbled.unwrap_err()));
    }
}
