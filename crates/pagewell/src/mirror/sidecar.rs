//! The record of a leg in a file beside it.
//!
//! 72 bytes, little-endian:
//!
//! ```text
//!  0  "PWMIRROR"
//!  8  version     2
//! 12  state       1 clean, 2 in use, 3 being resynchronised
//! 13  index, count of legs, and a zero
//! 16  identity    16 bytes
//! 32  generation
//! 40  length      of the leg, in bytes
//! 48  left behind a bit for each leg that lacks writes which this one has
//! 56  binding     what the leg was, see `binding.rs`
//! 64  checksum    first 8 bytes of the SHA-256 of what is in front of it
//! ```
//!
//! It is replaced as a whole: written under another name, synchronised, renamed, and the name
//! synchronised. Whenever that is cut short, the old record or the new one is there. What is left
//! of a cut is overwritten the next time; it is never read. A record that another user than this
//! one and root may have written is not relied on: it decides which leg is copied over which.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use pagewell_base::files;
use pagewell_device::{LegState, MirrorRecord, RecordError, Standing};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::closing::{InUse, OPEN, Open};
use crate::state::{self, SYSTEM};

const MAGIC: &[u8; 8] = b"PWMIRROR";
const VERSION: u32 = 2;
const BYTES: usize = 72;
const CHECKSUM_AT: usize = 64;

/// The records of all legs of a mirror, each in its file.
pub(crate) struct Sidecars {
    files: Vec<PathBuf>,
    bindings: Vec<Option<u64>>,
    _in_use: InUse,
}

impl Sidecars {
    /// In these files, one for each leg, of legs with these [bindings](super::binding); the
    /// files need not be there.
    pub(crate) fn new(files: Vec<PathBuf>, bindings: Vec<Option<u64>>) -> Self {
        Self::counted(files, bindings, &OPEN)
    }

    /// The same, counted there as long as they are in use.
    pub(super) fn counted(
        files: Vec<PathBuf>,
        bindings: Vec<Option<u64>>,
        open: &'static Open,
    ) -> Self {
        Self {
            files,
            bindings,
            _in_use: open.begin(),
        }
    }

    fn file(&self, leg: usize) -> Result<&Path, RecordError> {
        let file = self.files.get(leg).map(PathBuf::as_path);
        file.ok_or_else(|| RecordError::Failed {
            place: format!("leg {leg}"),
            errno: Errno::NOENT,
        })
    }
}

impl MirrorRecord for Sidecars {
    fn load(&self, leg: usize) -> Result<Option<Standing>, RecordError> {
        read_standing(self.file(leg)?)
    }

    fn store(&self, leg: usize, standing: &Standing) -> Result<(), RecordError> {
        let path = self.file(leg)?;
        replace(path, &encode(standing)).map_err(|error| failed(path, &error))
    }

    fn binding(&self, leg: usize) -> Option<u64> {
        self.bindings.get(leg).copied().flatten()
    }
}

/// What a record says, nothing when there is none.
pub(super) fn read_standing(path: &Path) -> Result<Option<Standing>, RecordError> {
    let (metadata, bytes) = match read(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path, &error)),
    };
    let garbled = |reason: String| RecordError::Garbled {
        place: path.display().to_string(),
        reason,
    };
    if let Some(distrust) = state::distrust(&metadata) {
        return Err(garbled(distrust.to_string()));
    }
    let standing = decode(&bytes).map_err(|reason| garbled(reason.to_owned()));
    standing.map(Some)
}

fn failed(path: &Path, error: &io::Error) -> RecordError {
    RecordError::Failed {
        place: path.display().to_string(),
        errno: Errno::from_io_error(error).unwrap_or(Errno::IO),
    }
}

/// What is in the file, and one byte more than a record has when it is longer.
fn read(path: &Path) -> io::Result<(Metadata, Vec<u8>)> {
    let file = files::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::with_capacity(BYTES + 1);
    file.take(BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok((metadata, bytes))
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    if !directory.exists() {
        make_folder(directory)?;
    }
    let is_shared = directory.starts_with(SYSTEM);
    if is_shared {
        let_others_read(directory, Path::new(SYSTEM))?;
    }
    files::replace(path, 0o644, |file| {
        if is_shared {
            file.set_permissions(fs::Permissions::from_mode(0o644))?;
        }
        file.write_all(bytes)
    })
}

/// Makes a folder and those above it, so that they are there after a power failure.
fn make_folder(folder: &Path) -> io::Result<()> {
    let missing = folder.ancestors().take_while(|one| !one.exists());
    let missing: Vec<&Path> = missing.collect();
    for one in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(one) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        File::open(files::folder_of(one))?.sync_all()?;
    }
    Ok(())
}

/// What root notes of devices counts for everybody, so everybody may look at it: `folder` can be
/// listed, those from `top` to it can be passed through. What else is in them has permissions of
/// its own.
fn let_others_read(folder: &Path, top: &Path) -> io::Result<()> {
    let from_top = folder.ancestors().take_while(|one| one.starts_with(top));
    for one in from_top {
        let wanted = if one == folder { 0o755 } else { 0o711 };
        let mode = one.metadata()?.permissions().mode();
        if mode & wanted != wanted {
            fs::set_permissions(one, fs::Permissions::from_mode(mode & 0o7777 | wanted))?;
        }
    }
    Ok(())
}

fn encode(standing: &Standing) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12] = match standing.state {
        LegState::Clean => 1,
        LegState::InUse => 2,
        LegState::Resynchronising => 3,
    };
    bytes[13] = standing.index;
    bytes[14] = standing.count;
    bytes[16..32].copy_from_slice(&standing.identity);
    bytes[32..40].copy_from_slice(&standing.generation.to_le_bytes());
    bytes[40..48].copy_from_slice(&standing.length_bytes.to_le_bytes());
    bytes[48..56].copy_from_slice(&standing.left_behind.to_le_bytes());
    bytes[56..64].copy_from_slice(&standing.binding.to_le_bytes());
    let checksum = checksum(&bytes);
    bytes[CHECKSUM_AT..].copy_from_slice(&checksum);
    bytes
}

fn decode(bytes: &[u8]) -> Result<Standing, &'static str> {
    let bytes: &[u8; BYTES] = bytes.try_into().map_err(|_| "is no record of a mirror")?;
    if bytes[..8] != *MAGIC {
        return Err("is no record of a mirror");
    }
    if bytes[CHECKSUM_AT..] != checksum(bytes) {
        return Err("is a damaged record of a mirror");
    }
    if bytes[8..12] != VERSION.to_le_bytes() {
        return Err("is a record of a mirror in a version that is not known");
    }
    let state = match bytes[12] {
        1 => LegState::Clean,
        2 => LegState::InUse,
        3 => LegState::Resynchronising,
        _ => return Err("is a record of a mirror in a state that is not known"),
    };
    let number = |at: usize| {
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(number)
    };
    let mut identity = [0; 16];
    identity.copy_from_slice(&bytes[16..32]);
    Ok(Standing {
        identity,
        index: bytes[13],
        count: bytes[14],
        generation: number(32),
        state,
        length_bytes: number(40),
        left_behind: number(48),
        binding: number(56),
    })
}

fn checksum(bytes: &[u8; BYTES]) -> [u8; 8] {
    hash(&bytes[..CHECKSUM_AT])
}

/// The first bytes of the SHA-256 of these.
pub(super) fn hash(bytes: &[u8]) -> [u8; 8] {
    let hash = Sha256::digest(bytes);
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_base::files::temporary_of;

    fn standing(generation: u64, state: LegState) -> Standing {
        Standing {
            identity: *b"0123456789abcdef",
            index: 1,
            count: 2,
            generation,
            state,
            length_bytes: 1 << 40,
            left_behind: 5,
            binding: 1 << 60,
        }
    }

    fn one() -> (tempfile::TempDir, PathBuf, Sidecars) {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("deep/er/disk.img.pagewell-mirror");
        let sidecars = Sidecars::new(vec![path.clone()], vec![Some(7)]);
        (base, path, sidecars)
    }

    #[test]
    fn what_is_stored_is_loaded() {
        let (_base, path, sidecars) = one();
        assert_eq!(sidecars.load(0), Ok(None));
        for state in LegState::ALL {
            for generation in [1, 77, u64::MAX] {
                let standing = standing(generation, state);
                sidecars.store(0, &standing).unwrap();
                assert_eq!(sidecars.load(0), Ok(Some(standing)));
            }
        }
        let names = fs::read_dir(path.parent().unwrap()).unwrap();
        assert_eq!(names.count(), 1, "nothing else is left");
        assert!(
            sidecars.load(1).is_err() && sidecars.store(1, &standing(1, LegState::Clean)).is_err()
        );
    }

    #[test]
    fn others_can_look_at_what_root_notes() {
        let base = tempfile::tempdir().unwrap();
        let (top, folder) = (base.path().join("top"), base.path().join("top/mirror"));
        make_folder(&folder).unwrap();
        make_folder(&folder).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&top), mode(&folder)), (0o700, 0o700));
        let before = mode(base.path());
        let_others_read(&folder, &top).unwrap();
        assert_eq!((mode(&top), mode(&folder)), (0o711, 0o755));
        assert_eq!(mode(base.path()), before);
    }

    /// Storing is cut short at each of its steps, and at each byte of the one that writes.
    #[test]
    fn a_cut_leaves_the_old_record_or_the_new_one() {
        let (_base, path, sidecars) = one();
        let (old, new) = (standing(5, LegState::InUse), standing(6, LegState::Clean));
        let bytes = encode(&new);
        for cut in 0..=BYTES {
            sidecars.store(0, &old).unwrap();
            fs::write(temporary_of(&path), &bytes[..cut]).unwrap();
            assert_eq!(sidecars.load(0), Ok(Some(old)), "cut after {cut} bytes");
            // What is left does not stand in the way.
            sidecars.store(0, &new).unwrap();
            assert_eq!(sidecars.load(0), Ok(Some(new)));
            assert!(!temporary_of(&path).exists());
        }
        // The rename is one step of the file system: the new record is complete.
        sidecars.store(0, &old).unwrap();
        fs::write(temporary_of(&path), bytes).unwrap();
        fs::rename(temporary_of(&path), &path).unwrap();
        assert_eq!(sidecars.load(0), Ok(Some(new)));
    }

    /// A disk that lies about what is durable, or is damaged.
    #[test]
    fn garbage_is_never_taken_for_a_record() {
        let (_base, path, sidecars) = one();
        let good = standing(5, LegState::InUse);
        sidecars.store(0, &good).unwrap();
        let bytes = encode(&good);
        let garbled = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            matches!(sidecars.load(0), Err(RecordError::Garbled { .. }))
        };
        for bit in 0..BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(garbled(&flipped), "bit {bit}");
        }
        for cut in 0..BYTES {
            assert!(garbled(&bytes[..cut]), "{cut} bytes");
            let mut torn = bytes;
            torn[cut..].fill(0);
            assert!(torn == bytes || garbled(&torn), "zeros from {cut}");
        }
        assert!(garbled(&[&bytes[..], b"x"].concat()));
        // A version of the future, undamaged.
        let mut later = bytes;
        later[8] = 3;
        let sum = checksum(&later);
        later[CHECKSUM_AT..].copy_from_slice(&sum);
        assert_eq!(
            decode(&later).unwrap_err(),
            "is a record of a mirror in a version that is not known"
        );
        // Not a file at all.
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(sidecars.load(0), Err(RecordError::Failed { .. })));
    }

    #[test]
    fn what_others_may_have_written_is_no_record() {
        let (_base, path, sidecars) = one();
        let good = standing(5, LegState::Clean);
        sidecars.store(0, &good).unwrap();
        let refused = |expected: &str| match sidecars.load(0) {
            Err(RecordError::Garbled { reason, .. }) => assert!(reason.contains(expected)),
            other => panic!("{expected}: {other:?}"),
        };
        for mode in [0o664, 0o646, 0o622] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            refused("chmod go-w");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(sidecars.load(0), Ok(Some(good)));
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: needs root to give files away");
            return;
        }
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        refused("belongs to user 65534");
        // What is chosen by hand is stored in its place.
        sidecars.store(0, &good).unwrap();
        assert_eq!(sidecars.load(0), Ok(Some(good)));
    }

    #[test]
    fn a_place_that_takes_nothing_says_so() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        let sidecars = Sidecars::new(vec![file.join("below"), "/proc/none".into()], Vec::new());
        for leg in 0..2 {
            let error = sidecars
                .store(leg, &standing(1, LegState::Clean))
                .unwrap_err();
            assert!(matches!(error, RecordError::Failed { .. }), "{error}");
        }
        // A link in its place is not followed.
        let victim = base.path().join("victim");
        fs::write(&victim, "dear").unwrap();
        let path = base.path().join("leg");
        std::os::unix::fs::symlink(&victim, temporary_of(&path)).unwrap();
        let sidecars = Sidecars::new(vec![path], Vec::new());
        sidecars.store(0, &standing(1, LegState::Clean)).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"dear");
    }
}
