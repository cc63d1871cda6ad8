//! What a path holds, recognised by content, never by name except for sheets; and what a file that
//! is no source looks like.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use pagewell_container::{Depth, Wanted, volume};
use pagewell_device::{Device, Engine, FileDevice, FileOptions};
use pagewell_fs::source::OpenError;
use pagewell_source_bytes::{Bytes, open_error};
use pagewell_source_iso as iso;
use pagewell_source_udf::{self as udf, NotUdf};

use crate::storage::Storage;
use crate::storage::contained::{self, Trouble};

/// What a path holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceKind {
    Directory,
    /// A disc image (ISO 9660, UDF), maybe with wrappings around it.
    Disc,
    /// An optical image that cannot be read; the text is what it is, with its article.
    Unreadable(String),
    /// Any other file or block device.
    Other,
}

/// Looks at what `path` holds. Follows symbolic links.
pub(crate) fn recognise(path: &Path) -> Result<SourceKind, OpenError> {
    if path.is_dir() {
        return Ok(SourceKind::Directory);
    }
    // Some sectors are not worth a ring. The file's times stay.
    let options = FileOptions {
        direct: false,
        engine: Engine::Workers,
        unnoticed: true,
        workers: 1,
        ..FileOptions::default()
    };
    let open = |path: &Path| -> Result<Arc<dyn Device>, OpenError> {
        let device = FileDevice::open_with(path, options.clone());
        Ok(Arc::new(device.map_err(|error| open_error(path, error))?))
    };
    let device = open(path)?;
    let name = device.name().to_owned();
    let beside = |storage: &Storage| Ok(open(storage.path()?)?);
    let storage = Storage::Path(path.to_owned());
    let whole = (device, Wanted::default());
    match contained::unwrap(&storage, whole, Depth::Look, beside) {
        Ok(contained) => recognise_device(&*contained.device),
        Err(Trouble::Unreadable(what)) => Ok(SourceKind::Unreadable(what)),
        Err(Trouble::Failed(error)) => Err(OpenError::new(&name, &error.to_string())),
    }
}

fn recognise_device(device: &dyn Device) -> Result<SourceKind, OpenError> {
    let failed = |error: pagewell_device::Error| OpenError::new(device.name(), &error.to_string());
    let named = udf::recognise(device).map_err(failed)?;
    Ok(match iso::recognise(device).map_err(failed)? {
        Ok(()) => SourceKind::Disc,
        Err(_) if named.is_ok() => SourceKind::Disc,
        Err(_) if named == Err(NotUdf::NoAnchor) => {
            let why = NotUdf::NoAnchor;
            SourceKind::Unreadable(format!("a UDF image that cannot be read: {why}"))
        }
        Err(_) => SourceKind::Other,
    })
}

/// Endings of names that promise an image, also below that of a compression.
const IMAGE_NAMES: [&str; 12] = [
    "iso", "udf", "cue", "ccd", "mds", "mdf", "gdi", "nrg", "cso", "zso", "dax", "chd",
];
const COMPRESSED_NAMES: [&str; 3] = ["gz", "xz", "zst"];

/// Why a file is plain although its content or name promises a disc.
pub(crate) fn why_plain(path: &Path, kind: &SourceKind) -> Option<String> {
    match kind {
        SourceKind::Unreadable(what) => Some(format!("it is {what}")),
        SourceKind::Other if promises_image(path) => {
            let what = guess(path);
            Some(format!(
                "it looks like {what}, not like the image of a disc"
            ))
        }
        SourceKind::Directory | SourceKind::Disc | SourceKind::Other => None,
    }
}

fn promises_image(path: &Path) -> bool {
    let is_one_of = |path: &Path, names: &[&str]| {
        let extension = path.extension().unwrap_or_default();
        let mut names = names.iter();
        names.any(|name| extension.eq_ignore_ascii_case(name))
    };
    match is_one_of(path, &COMPRESSED_NAMES) {
        true => is_one_of(&path.with_extension(""), &IMAGE_NAMES),
        false => is_one_of(path, &IMAGE_NAMES),
    }
}

/// An existing source at the beginning of a missing path, and the place inside that may be meant:
/// `IMAGE/PATH`, `IMAGE:PATH` or `IMAGE::PATH`.
pub(crate) fn meant_inside(path: &Path) -> Option<(&Path, &[u8])> {
    if path.symlink_metadata().is_ok() {
        return None;
    }
    let bytes = path.as_os_str().as_bytes();
    let is_end = |(at, byte): (usize, &u8)| b":/".contains(byte).then_some(at);
    let ends = bytes.iter().enumerate().filter_map(is_end);
    ends.filter_map(|at| bytes.split_at_checked(at))
        .find_map(|(before, behind)| {
            let whole = Path::new(OsStr::from_bytes(before));
            let first = behind.iter().position(|byte| !b":/".contains(byte))?;
            let inside = behind.get(first..)?;
            let is_source = match recognise(whole).ok()? {
                // The place in a directory follows a slash, and is missing.
                SourceKind::Directory => behind.starts_with(b":"),
                SourceKind::Disc => true,
                SourceKind::Unreadable(_) | SourceKind::Other => false,
            };
            is_source.then_some((whole, inside))
        })
}

/// Up to the end of the last of [`MARKS`].
const LOOK_BYTES: u64 = 68 << 10;

/// The mark of a VHD image: at its beginning, and 512 bytes before its end, where an image of fixed
/// size has its only one.
const VHD: &[u8] = b"conectix";
const VHD_FOOTER_BYTES: i64 = 512;

/// The beginnings of a web page, in small letters.
const HTML: [&[u8]; 2] = [b"<!doctype html", b"<html"];
const HTML_BYTES: usize = 14;

/// The beginning of Git's placeholder for a large file.
const LFS: &[u8] = b"version https://git-lfs";

const UNKNOWN: &str = "nothing that is known";

/// Offsets and marks; the first that fits counts.
const MARKS: [(usize, &[u8], &str); 27] = [
    (0, b"PK\x03\x04", "a zip archive"),
    (0, b"PK\x05\x06", "a zip archive"),
    (0, b"\x1f\x8b", "a gzip file"),
    (0, b"\xfd7zXZ\0", "an xz file"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd file"),
    (0, b"BZh", "a bzip2 file"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (0, b"QFI\xfb", "a qcow2 image, whose format is not read"),
    (0, b"KDMV", "a VMDK image, whose format is not read"),
    (0, b"vhdxfile", "a VHDX image, whose format is not read"),
    (0, VHD, "a VHD image that grows, whose format is not read"),
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    (0, b"XFSB", "an XFS file system"),
    (0, b"hsqs", "a squashfs file system"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"\x7fELF", "a program (ELF)"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (54, b"FAT1", "a FAT file system"),
    (82, b"FAT32", "a FAT file system"),
    (257, b"ustar", "a tar archive"),
    (512, b"LABELONE", "an LVM volume"),
    (512, b"EFI PART", "a disk with partitions"),
    (1080, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
    (4086, b"SWAPSPACE2", "swap space"),
    (65600, b"_BHRfS_M", "a btrfs file system"),
    (510, b"\x55\xaa", "a disk with a boot sector"),
];

/// What a file looks like, in words to follow "looks like".
pub(crate) fn guess(path: &Path) -> &'static str {
    let mut bytes = Vec::new();
    let Ok(mut file) = File::open(path) else {
        return UNKNOWN;
    };
    if (&file).take(LOOK_BYTES).read_to_end(&mut bytes).is_err() {
        return UNKNOWN;
    }
    if !bytes.starts_with(VHD) && has_vhd_footer(&mut file) {
        return "a VHD image of fixed size: the disk, and 512 bytes behind it";
    }
    of_bytes(&bytes)
}

/// The same of an open image; none for the volume of a disc or an unknown one.
pub(crate) fn guess_of(image: &Bytes) -> Option<&'static str> {
    let length = image.length_bytes().min(LOOK_BYTES);
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    image.read(0, &mut bytes, true).ok()?;
    let volume = volume::MARK_POSITION..volume::MARK_POSITION + volume::SECTOR_BYTES;
    let volume = usize::try_from(volume.start).ok()?..usize::try_from(volume.end).ok()?;
    if bytes.get(volume).is_some_and(volume::begins) {
        return None;
    }
    Some(of_bytes(&bytes)).filter(|what| *what != UNKNOWN)
}

fn has_vhd_footer(file: &mut File) -> bool {
    let mut mark = [0; VHD.len()];
    file.seek(SeekFrom::End(-VHD_FOOTER_BYTES)).is_ok()
        && file.read_exact(&mut mark).is_ok()
        && mark == *VHD
}

fn of_bytes(bytes: &[u8]) -> &'static str {
    let fits = |(at, mark, _): &&(usize, &[u8], &str)| {
        bytes.get(*at..).is_some_and(|rest| rest.starts_with(mark))
    };
    if let Some((_, _, what)) = MARKS.iter().find(fits) {
        return what;
    }
    let is_text =
        |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b'\x0c' | 0x20..=0x7e | 0x80..);
    let page = bytes
        .trim_ascii_start()
        .get(..HTML_BYTES)
        .unwrap_or_default();
    let is_page = |start: &&[u8]| page.to_ascii_lowercase().starts_with(start);
    match bytes {
        [] => "an empty file",
        _ if bytes.starts_with(LFS) => "a pointer of Git LFS, without the file that it stands for",
        _ if HTML.iter().any(is_page) => "a web page, as failed downloads leave",
        _ if bytes.iter().all(|byte| *byte == 0) => "an empty disk",
        _ if bytes.iter().all(is_text) => "text",
        _ => UNKNOWN,
    }
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
        assert_eq!(recognise(&file), Ok(SourceKind::Disc));
        image[32768..32774].copy_from_slice(b"\x00NSR02");
        std::fs::write(&file, &image).unwrap();
        assert!(matches!(recognise(&file), Ok(SourceKind::Unreadable(_))));
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

    #[test]
    fn vhd_images_are_told_apart_from_the_disk_in_them() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk.vhd");
        let mut image = vec![0; 70_000];
        image[510..512].copy_from_slice(b"\x55\xaa");
        std::fs::write(&path, &image).unwrap();
        assert_eq!(guess(&path), "a disk with a boot sector");
        let footer = image.len() - 512;
        image[footer..footer + 8].copy_from_slice(VHD);
        std::fs::write(&path, &image).unwrap();
        assert!(guess(&path).starts_with("a VHD image of fixed size"));
        image[..8].copy_from_slice(VHD);
        std::fs::write(&path, &image).unwrap();
        assert!(guess(&path).starts_with("a VHD image that grows"));
    }

    #[test]
    fn what_people_have_is_told_apart() {
        let with = |at: usize, mark: &[u8]| {
            let mut bytes = vec![0; 70_000];
            bytes[at..at + mark.len()].copy_from_slice(mark);
            of_bytes(&bytes)
        };
        assert_eq!(with(1080, b"\x53\xef"), "an ext2, ext3 or ext4 file system");
        assert_eq!(with(0, b"PK\x03\x04"), "a zip archive");
        assert_eq!(with(65600, b"_BHRfS_M"), "a btrfs file system");
        assert_eq!(with(9, b"\x01"), UNKNOWN);
        assert_eq!(of_bytes("Gr\u{fc}\u{df}e\n".as_bytes()), "text");
        assert_eq!(of_bytes(&[0; 4096]), "an empty disk");
        assert_eq!(of_bytes(b""), "an empty file");
        assert!(of_bytes(b"\n<!DOCTYPE HTML><p>404").starts_with("a web page"));
        assert!(of_bytes(b"version https://git-lfs.github.com/spec/v1\n").contains("Git LFS"));
        assert_eq!(guess(Path::new("/nowhere/at/all")), UNKNOWN);
    }

    #[test]
    fn what_is_inside_a_source_may_be_meant() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let mut image = vec![0u8; 20 * 2048];
        image[32768..32774].copy_from_slice(b"\x01CD001");
        std::fs::write(at("a.iso"), image).unwrap();
        std::fs::write(at("text"), "x").unwrap();
        std::fs::create_dir(at("tree")).unwrap();
        for (name, whole) in [
            ("a.iso/x/y", Some("a.iso")),
            ("a.iso:x/y", Some("a.iso")),
            ("a.iso::x/y", Some("a.iso")),
            ("a.iso::/x/y", Some("a.iso")),
            ("tree::/x/y", Some("tree")),
            ("tree/x/y", None),
            ("text/x/y", None),
            ("nothing:x/y", None),
            ("a.iso", None),
            ("a.iso/", None),
        ] {
            let path = at(name);
            let whole = whole.map(at);
            let expected = whole.as_deref().map(|whole| (whole, &b"x/y"[..]));
            assert_eq!(meant_inside(&path), expected, "{name}");
        }
    }
}
