//! Data of writes that nobody takes, out of memory.
//!
//! Problem: a write that was received has to be kept until the storage answers, or its program is
//! killed: the kernel takes none back. Of 200 programs that write to a server which is silent, that
//! is 200 MiB, more than the whole mount may have besides its cache ([`crate::dispatch`]).
//!
//! Rule: what is received although there is no memory for it goes to a file without a name, in
//! `$TMPDIR` or else `/var/tmp`, and comes back when its turn has come. It is opened when the mount
//! begins, so that nobody waits for the opening, and not where files are in memory or on a network.
//! Each write has a place of its own in it; when the last one is out, the file is emptied.
//!
//! Weaknesses: where there is no such file, or no space, memory is taken as before. What is written
//! lies on a disk for that time, readable for the user who mounts and for root.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pagewell_counters::names;
use pagewell_fs::{Error, Result};
use rustix::fs::{Mode, OFlags};

use crate::spare::{self, Copied};

/// Distance of two places: the largest write. Of a place only what was written takes space.
const PLACE_BYTES: u64 = 1 << 20;
/// File systems (as statfs tells) that are in memory (tmpfs, ramfs), or that may be what does not
/// answer (FUSE, NFS, SMB of three kinds).
const UNFIT: [u32; 7] = [
    0x0102_1994,
    0x8584_58f6,
    0x6573_5546,
    0x6969,
    0xff53_4d42,
    0xfe53_4d42,
    0x517b,
];

/// The file.
pub(crate) struct Spill {
    file: Option<File>,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    /// Of those that ever were, which are free.
    free: Vec<u64>,
    count: u64,
}

/// A write in the file; it leaves when this is dropped.
struct Spilled {
    spill: Arc<Spill>,
    place: u64,
    length: usize,
}

impl Spill {
    /// In one of the usual folders, if any is fit.
    pub(crate) fn open() -> Self {
        Self::open_in(&[std::env::temp_dir(), PathBuf::from("/var/tmp")])
    }

    fn open_in(folders: &[PathBuf]) -> Self {
        Self {
            file: folders.iter().find_map(|folder| open_fit(folder)),
            places: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(self: &Arc<Self>, data: &[u8]) -> Option<Spilled> {
        let file = self.file.as_ref()?;
        if data.len() as u64 > PLACE_BYTES {
            return None;
        }
        let mut places = self.lock();
        let place = places.free.pop().unwrap_or_else(|| {
            places.count += 1;
            places.count - 1
        });
        drop(places);
        // From here on it is given back, also when there is no space.
        let spilled = Spilled {
            spill: Arc::clone(self),
            place,
            length: data.len(),
        };
        file.write_all_at(data, place * PLACE_BYTES).ok()?;
        names::FUSE_SPILLED_BYTES.add(data.len() as u64);
        Some(spilled)
    }

    fn give_back(&self, place: u64) {
        let mut places = self.lock();
        places.free.push(place);
        // Nobody else has a place: what they take is counted before they write.
        if places.free.len() as u64 == places.count {
            *places = Places::default();
            if let Some(file) = &self.file {
                let _ = file.set_len(0);
            }
        }
    }
}

fn open_fit(folder: &Path) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::EXCL;
    let file = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR).ok()?;
    let status = rustix::fs::fstatfs(file.as_fd()).ok()?;
    // Its type has another size, and sign, on each kind of machine.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let kind = status.f_type as u32;
    (!UNFIT.contains(&kind)).then(|| File::from(file))
}

impl Drop for Spilled {
    fn drop(&mut self) {
        self.spill.give_back(self.place);
    }
}

/// Data of a write that waits.
pub(crate) struct Held(Place);

enum Place {
    Memory(Copied),
    File(Spilled),
}

impl Held {
    /// A copy of `data`, in the file if there is one to be used and it takes it.
    pub(crate) fn of(data: &[u8], spill: Option<&Arc<Spill>>) -> Self {
        Self(match spill.and_then(|spill| spill.put(data)) {
            Some(spilled) => Place::File(spilled),
            None => Place::Memory(Copied::of(data)),
        })
    }

    /// The data, in memory.
    pub(crate) fn bring(self) -> Result<Copied> {
        match self.0 {
            Place::Memory(data) => Ok(data),
            Place::File(spilled) => spilled.bring(),
        }
    }
}

impl Spilled {
    fn bring(&self) -> Result<Copied> {
        let mut data = spare::take();
        data.reserve_exact(self.length);
        data.resize(self.length, 0);
        let came = match &self.spill.file {
            Some(file) => file.read_exact_at(&mut data, self.place * PLACE_BYTES),
            None => Err(std::io::ErrorKind::NotFound.into()),
        };
        let data = Copied::from(data);
        match came {
            Ok(()) => Ok(data),
            Err(error) => Err(Error::Io(format!("data that was put aside: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file as any other, as not every file system has some without names.
    fn spill() -> Arc<Spill> {
        Arc::new(Spill {
            file: Some(tempfile::tempfile().unwrap()),
            places: Mutex::default(),
        })
    }

    fn length(spill: &Spill) -> u64 {
        spill.file.as_ref().unwrap().metadata().unwrap().len()
    }

    #[test]
    fn what_is_put_aside_comes_back_in_any_order_and_leaves_nothing() {
        let spill = spill();
        for _ in 0..2 {
            let data = |number: u8| vec![number; usize::from(number) * 5000 + 1];
            let mut held: Vec<(u8, Held)> = (0..200)
                .map(|number| (number, Held::of(&data(number), Some(&spill))))
                .collect();
            assert!(
                held.iter()
                    .all(|(_, held)| matches!(held.0, Place::File(_)))
            );
            // Some are killed, others come instead.
            held.retain(|(number, _)| number % 3 != 0);
            held.extend((0..50).map(|number| (number, Held::of(&data(number), Some(&spill)))));
            assert_eq!(spill.lock().count, 200, "places are used again");
            for (number, held) in held.into_iter().rev() {
                assert!(*held.bring().unwrap() == data(number), "{number}");
            }
            assert_eq!((spill.lock().count, length(&spill)), (0, 0));
        }
    }

    #[test]
    fn without_a_file_it_stays_in_memory() {
        let nowhere = Arc::new(Spill::open_in(&[PathBuf::from("/proc/no such folder")]));
        assert!(nowhere.file.is_none());
        assert!(open_fit(Path::new("/dev/shm")).is_none(), "that is memory");
        let large = vec![1; (1 << 20) + 1];
        let spill = spill();
        for held in [
            Held::of(b"abc", Some(&nowhere)),
            Held::of(b"abc", None),
            Held::of(&large, Some(&spill)),
        ] {
            assert!(matches!(held.0, Place::Memory(_)));
        }
    }

    #[test]
    fn a_disk_that_is_full_or_fails_is_no_loss_of_what_it_did_not_take() {
        let full = File::options()
            .read(true)
            .write(true)
            .open("/dev/full")
            .unwrap();
        let spill = Arc::new(Spill {
            file: Some(full),
            places: Mutex::default(),
        });
        let held = Held::of(b"abc", Some(&spill));
        assert!(matches!(held.0, Place::Memory(_)));
        assert_eq!(&*held.bring().unwrap(), b"abc");
        assert_eq!(spill.lock().count, 0);
        // One that takes all and gives nothing back.
        let lost = File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .unwrap();
        let spill = Arc::new(Spill {
            file: Some(lost),
            places: Mutex::default(),
        });
        let held = Held::of(b"abc", Some(&spill));
        assert!(matches!(held.bring(), Err(Error::Io(_))));
    }
}
