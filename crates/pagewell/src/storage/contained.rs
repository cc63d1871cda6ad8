//! Images inside other things: the bytes of a volume without their wrappings.
//!
//! [`pagewell_container`] looks at the bytes. The files that a sheet (`.cue` and the like) names
//! are opened here, beside the sheet: at a path of this machine whatever their capitals, at a
//! server under exactly that name.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pagewell_base::files::{folder_of, open_regular};
use pagewell_container::{Depth, Error, SHEET_BYTES_MAX, Sheet, Unwrapped, Wanted};
use pagewell_device::{Device, read_exact};

use super::Storage;

/// Names in a folder to compare with one in the wrong case.
const NAMES_MAX: usize = 100_000;

/// Why wrappings could not be taken off.
pub(crate) enum Trouble {
    /// An image that cannot be read: what it is, with its article.
    Unreadable(String),
    /// It cannot be looked at.
    Failed(anyhow::Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error {
            Error::Damaged { what, .. } => Self::Unreadable(what),
            Error::Unopened(_) => Self::Unreadable(error.to_string()),
            Error::Device(_) => Self::Failed(error.into()),
        }
    }
}

/// Takes off the wrappings of `device`, up to what is wanted; `open` opens what is beside it.
pub(crate) fn unwrap(
    storage: &Storage,
    (device, wanted): (Arc<dyn Device>, Wanted),
    depth: Depth<'_>,
    open: impl Fn(&Storage) -> anyhow::Result<Arc<dyn Device>>,
) -> Result<Unwrapped, Trouble> {
    let name = storage.last_name();
    if !Sheet::is_name(&name) || device.length_bytes() > SHEET_BYTES_MAX {
        return Ok(pagewell_container::unwrap(device, wanted, depth)?);
    }
    let sheet = read_sheet(&name, &*device)?;
    let open = |name: &[u8]| {
        let opened = open(&storage.beside(name));
        opened.map_err(|error| error.root_cause().to_string())
    };
    Ok(pagewell_container::unwrap_sheet(
        &sheet, &open, wanted, depth,
    )?)
}

fn read_sheet(name: &[u8], device: &dyn Device) -> Result<Sheet, Trouble> {
    let length = usize::try_from(device.length_bytes()).unwrap_or_default();
    let mut bytes = vec![0; length];
    read_exact(device, 0, &mut bytes).map_err(|error| Trouble::Failed(error.into()))?;
    Sheet::parse(name, &bytes).map_err(|what| Trouble::Unreadable(format!("a sheet that {what}")))
}

/// The files that the sheet at a path names; none when it is no sheet.
pub(crate) fn files_of_sheet(path: &Path) -> Vec<PathBuf> {
    let files = || {
        let name = path.file_name()?.as_bytes();
        if !Sheet::is_name(name) {
            return None;
        }
        let mut bytes = Vec::new();
        let mut limited = open_regular(path).ok()?.take(SHEET_BYTES_MAX + 1);
        limited.read_to_end(&mut bytes).ok()?;
        let is_small = bytes.len() as u64 <= SHEET_BYTES_MAX;
        let sheet = Sheet::parse(name, &bytes).ok().filter(|_| is_small)?;
        Some(sheet.files().map(|file| beside_path(path, file)).collect())
    };
    files().unwrap_or_default()
}

/// The path of a file beside another one, in whatever case.
fn beside_path(path: &Path, name: &[u8]) -> PathBuf {
    let folder = folder_of(path);
    let exact = folder.join(OsStr::from_bytes(name));
    if exact.symlink_metadata().is_ok() {
        return exact;
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names = entries.take(NAMES_MAX).map(|entry| entry.file_name());
    let same = names.find(|other| other.as_bytes().eq_ignore_ascii_case(name));
    same.map_or(exact, |same| folder.join(same))
}

impl Storage {
    /// The last part of its path or address; empty where it has none.
    fn last_name(&self) -> Vec<u8> {
        match self {
            Self::Path(path) => path.file_name().unwrap_or_default().as_bytes().to_vec(),
            Self::Object(url) => url[name_of_url(url)].as_bytes().to_vec(),
            Self::Ram(_) | Self::Url(_) => Vec::new(),
        }
    }

    /// The storage beside it under this name.
    fn beside(&self, name: &[u8]) -> Self {
        match self {
            Self::Path(path) => Self::Path(beside_path(path, name)),
            Self::Object(url) => {
                let mut url = url.clone();
                url.replace_range(name_of_url(&url), &percent_encoded(name));
                Self::Object(url)
            }
            other @ (Self::Ram(_) | Self::Url(_)) => other.clone(),
        }
    }
}

/// The last part of a URL's path.
fn name_of_url(url: &str) -> std::ops::Range<usize> {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let start = url[..end].rfind('/').map_or(0, |slash| slash + 1);
    start..end
}

fn percent_encoded(name: &[u8]) -> String {
    let mut text = String::new();
    for byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(*byte));
            }
            _ => text += &format!("%{byte:02X}"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_lie_beside_sheets_whatever_their_capitals() {
        let folder = tempfile::tempdir().unwrap();
        let sheet = folder.path().join("game.cue");
        std::fs::write(folder.path().join("Game.BIN"), "").unwrap();
        let found = beside_path(&sheet, b"GAME.bin");
        assert_eq!(found, folder.path().join("Game.BIN"));
        let missing = beside_path(&sheet, b"other.bin");
        assert_eq!(missing, folder.path().join("other.bin"));
    }

    #[test]
    fn the_files_of_a_sheet_are_known_and_a_pipe_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let sheet = folder.path().join("a.cue");
        let text = b"FILE \"a.bin\" BINARY\n TRACK 01 MODE1/2048\n  INDEX 01 00:00:00\n";
        std::fs::write(&sheet, text).unwrap();
        assert_eq!(files_of_sheet(&sheet), [folder.path().join("a.bin")]);
        let long = usize::try_from(SHEET_BYTES_MAX).unwrap() + 1;
        let mut bytes = text.to_vec();
        bytes.resize(long, b'\n');
        std::fs::write(&sheet, &bytes).unwrap();
        assert!(files_of_sheet(&sheet).is_empty());
        // Its writer never comes.
        let pipe = folder.path().join("b.cue");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, 0o600.into(), 0).unwrap();
        assert!(files_of_sheet(&pipe).is_empty());
    }

    #[test]
    fn addresses_keep_their_folder_and_options() {
        for (url, beside) in [
            ("https://h/a/x.cue", "https://h/a/My%20Game.bin"),
            ("s3://b/x.cue?region=r/s", "s3://b/My%20Game.bin?region=r/s"),
        ] {
            let storage = Storage::Object(url.to_owned());
            assert_eq!(storage.last_name(), b"x.cue");
            let expected = Storage::Object(beside.to_owned());
            assert_eq!(storage.beside(b"My Game.bin"), expected);
        }
    }
}
