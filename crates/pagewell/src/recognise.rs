//! What a path holds, recognised by content and never by its name.

use std::path::Path;

use pagewell_device::{Device, Engine, FileDevice, FileOptions};
use pagewell_fs::source::OpenError;
use pagewell_source_iso::{self as iso, NotIso};

/// What a path holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceKind {
    /// A directory.
    Directory,
    /// An ISO 9660 image, in a file or on a block device.
    Iso,
    /// An optical image that cannot be read; the text says what it is, with its article.
    Unsupported(&'static str),
    /// Any other file or block device.
    Other,
}

/// Looks at what `path` holds. Symbolic links are followed.
pub(crate) fn recognise(path: &Path) -> Result<SourceKind, OpenError> {
    if path.is_dir() {
        return Ok(SourceKind::Directory);
    }
    // A look at some sectors is not worth a ring, and may find what others have in memory. It is no
    // use of the file: a caller that asks for its times afterwards gets those of before.
    let options = FileOptions {
        direct: false,
        engine: Engine::Workers,
        unnoticed: true,
        workers: 1,
        ..FileOptions::default()
    };
    let of_device = |error| OpenError::of_device(path, error);
    let device = FileDevice::open_with(path, options).map_err(of_device)?;
    recognise_device(&device)
}

/// Looks at what a device holds: anything but a directory.
pub(crate) fn recognise_device(device: &dyn Device) -> Result<SourceKind, OpenError> {
    let failed = |error: pagewell_device::Error| OpenError::new(device.name(), &error.to_string());
    Ok(match iso::recognise(device).map_err(failed)? {
        Ok(()) => SourceKind::Iso,
        Err(NotIso::Unsupported(what)) => SourceKind::Unsupported(what),
        Err(NotIso::Unknown(_)) => SourceKind::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a\nb.iso");
        std::fs::write(&file, b"no image").unwrap();
        assert_eq!(recognise(directory.path()), Ok(SourceKind::Directory));
        assert_eq!(recognise(&file), Ok(SourceKind::Other));
        let mut image = vec![0u8; 20 * 2048];
        image[32768..32774].copy_from_slice(b"\x01CD001");
        std::fs::write(&file, &image).unwrap();
        assert_eq!(recognise(&file), Ok(SourceKind::Iso));
        image[..4].copy_from_slice(b"CISO");
        std::fs::write(&file, &image).unwrap();
        assert!(matches!(recognise(&file), Ok(SourceKind::Unsupported(_))));
    }

    /// Times of access of `relatime` move when they are not after the last change.
    #[test]
    fn a_look_leaves_the_time_of_access_alone() {
        use std::fs::{File, FileTimes};
        use std::time::{Duration, SystemTime};
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![0u8; 20 * 2048]).unwrap();
        let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
        let times = FileTimes::new().set_accessed(past).set_modified(past);
        let opened = File::options().write(true).open(file.path()).unwrap();
        opened.set_times(times).unwrap();
        assert_eq!(recognise(file.path()), Ok(SourceKind::Other));
        let accessed = file.path().metadata().unwrap().accessed().unwrap();
        assert_eq!(accessed, past);
    }

    #[test]
    fn errors_are_one_line_with_the_name_and_the_reason() {
        let error = recognise(Path::new("/nowhere/a\nb"))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("/nowhere/a\\nb: No such file"), "{error}");
        let error = recognise(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.contains("/dev/null: neither"), "{error}");
    }
}
