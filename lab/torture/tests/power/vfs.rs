//! A file system of SQLite ("VFS", <https://sqlite.org/vfs.html>) whose files are those of a
//! [`Volume`].
//!
//! One process, one connection: locks have nobody to keep out. The memory that connections share
//! in WAL mode is the volume's, so it is gone after a crash, as it must be.
//!
//! **What is claimed of the device** is what is true of it: a sector of 512 bytes is written
//! whole or not at all, and bytes outside a write are not touched by it. No claim is made that
//! more than a sector is atomic, that an append is safe or that writes keep their order.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use rusqlite::ffi;

use crate::store::SECTOR_BYTES;
use crate::volume::{File, Volume};

/// The name of the database.
pub(crate) const DATABASE: &str = "main";
const JOURNAL: &[u8] = b"main-journal";
const LOG: &[u8] = b"main-wal";
const PATH_BYTES_MAX: c_int = 64;
/// A Julian day in milliseconds: 2000-01-01. Runs do not depend on the time of day.
const NOW_MILLISECONDS: i64 = 211_813_444_800_000;

/// A volume that SQLite can open databases on, under a name. Must outlive them.
pub(crate) struct Registered {
    vfs: Box<ffi::sqlite3_vfs>,
    name: CString,
    /// Where the VFS points to.
    _volume: Arc<Shared>,
}

struct Shared {
    volume: Arc<Volume>,
    characteristics: c_int,
}

/// An open file, in memory that SQLite gives.
#[repr(C)]
struct OpenFile {
    base: ffi::sqlite3_file,
    shared: *const Shared,
    file: File,
}

impl Registered {
    /// Makes it known to SQLite. `powersafe` claims that bytes outside a write are not touched.
    pub(crate) fn new(name: &str, volume: Arc<Volume>, powersafe: bool) -> Self {
        let name = CString::new(name).expect("a name without NUL");
        let characteristics = if powersafe {
            ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
        } else {
            0
        };
        let shared = Arc::new(Shared {
            volume,
            characteristics,
        });
        let mut vfs = Box::new(ffi::sqlite3_vfs {
            iVersion: 2,
            szOsFile: c_int::try_from(size_of::<OpenFile>()).expect("small"),
            mxPathname: PATH_BYTES_MAX,
            pNext: ptr::null_mut(),
            zName: name.as_ptr(),
            pAppData: Arc::as_ptr(&shared).cast_mut().cast(),
            xOpen: Some(open),
            xDelete: Some(delete),
            xAccess: Some(access),
            xFullPathname: Some(full_path_name),
            xDlOpen: None,
            xDlError: None,
            xDlSym: None,
            xDlClose: None,
            xRandomness: Some(randomness),
            xSleep: Some(sleep),
            xCurrentTime: None,
            xGetLastError: None,
            xCurrentTimeInt64: Some(current_time),
            xSetSystemCall: None,
            xGetSystemCall: None,
            xNextSystemCall: None,
        });
        // SAFETY: the structure and all it points to live until `drop` takes it back.
        let code = unsafe { ffi::sqlite3_vfs_register(&raw mut *vfs, 0) };
        assert_eq!(code, ffi::SQLITE_OK, "the VFS is registered");
        Self {
            vfs,
            name,
            _volume: shared,
        }
    }

    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: it was registered, and its connections are closed.
        unsafe { ffi::sqlite3_vfs_unregister(&raw mut *self.vfs) };
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(lock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shared_map),
    xShmLock: Some(shared_lock),
    xShmBarrier: Some(shared_barrier),
    xShmUnmap: Some(shared_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// The volume of a VFS.
///
/// # Safety
/// `vfs` must be that of a [`Registered`].
unsafe fn volume_of<'a>(vfs: *mut ffi::sqlite3_vfs) -> &'a Volume {
    // SAFETY: `Registered` keeps both alive as long as SQLite knows the VFS.
    unsafe { &(*(*vfs).pAppData.cast::<Shared>()).volume }
}

/// The volume of an open file, and which of its files it is.
///
/// # Safety
/// `file` must have been opened by [`open`].
unsafe fn opened<'a>(file: *mut ffi::sqlite3_file) -> (&'a Volume, File) {
    // SAFETY: `open` filled it, and the VFS outlives its files.
    unsafe {
        let file = &*file.cast::<OpenFile>();
        (&(*file.shared).volume, file.file)
    }
}

/// Which file a path means.
///
/// # Safety
/// `path` is null or ends with NUL.
unsafe fn named(path: *const c_char) -> Option<File> {
    if path.is_null() {
        return None;
    }
    // SAFETY: as asked for.
    match unsafe { CStr::from_ptr(path) }.to_bytes() {
        name if name == DATABASE.as_bytes() => Some(File::Main),
        JOURNAL => Some(File::Journal),
        LOG => Some(File::Log),
        _ => None,
    }
}

/// A length or offset of SQLite, which are never negative.
fn unsigned(value: i64) -> u64 {
    u64::try_from(value).expect("offsets and lengths are not negative")
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    path: ffi::sqlite3_filename,
    target: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives memory of `szOsFile` bytes, the VFS and a path.
    unsafe {
        (*target).pMethods = ptr::null();
        let volume = volume_of(vfs);
        let Some(file) = named(path) else {
            return ffi::SQLITE_CANTOPEN;
        };
        let may_create = flags & ffi::SQLITE_OPEN_CREATE != 0;
        if volume.length(file).is_none()
            && (!may_create || volume.note(volume.create(file)).is_none())
        {
            return ffi::SQLITE_CANTOPEN;
        }
        let opened = OpenFile {
            base: ffi::sqlite3_file { pMethods: &METHODS },
            shared: (*vfs).pAppData.cast(),
            file,
        };
        target.cast::<OpenFile>().write(opened);
        if !flags_out.is_null() {
            *flags_out = flags;
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn delete(
    vfs: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    _sync_directory: c_int,
) -> c_int {
    // SAFETY: SQLite gives the VFS and a path.
    let (volume, file) = unsafe { (volume_of(vfs), named(path)) };
    match file.filter(|file| volume.length(*file).is_some()) {
        None => ffi::SQLITE_IOERR_DELETE_NOENT,
        Some(file) => match volume.note(volume.remove(file)) {
            Some(()) => ffi::SQLITE_OK,
            None => ffi::SQLITE_IOERR_DELETE,
        },
    }
}

unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    _flags: c_int,
    answer: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives the VFS, a path and a place for the answer.
    unsafe {
        let (volume, file) = (volume_of(vfs), named(path));
        *answer = c_int::from(file.is_some_and(|file| volume.length(file).is_some()));
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_path_name(
    _vfs: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    length: c_int,
    target: *mut c_char,
) -> c_int {
    // SAFETY: a path, and memory for `length` bytes.
    unsafe {
        let path = CStr::from_ptr(path).to_bytes_with_nul();
        if usize::try_from(length).is_ok_and(|length| length < path.len()) {
            return ffi::SQLITE_CANTOPEN;
        }
        ptr::copy_nonoverlapping(path.as_ptr(), target.cast(), path.len());
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn randomness(
    vfs: *mut ffi::sqlite3_vfs,
    length: c_int,
    target: *mut c_char,
) -> c_int {
    let bytes = usize::try_from(length).unwrap_or(0);
    // SAFETY: SQLite gives the VFS and memory for so many bytes.
    unsafe {
        target.write_bytes(0, bytes);
        volume_of(vfs).randomness(std::slice::from_raw_parts_mut(target.cast(), bytes));
    }
    length
}

unsafe extern "C" fn sleep(_vfs: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    microseconds
}

unsafe extern "C" fn current_time(_vfs: *mut ffi::sqlite3_vfs, time: *mut i64) -> c_int {
    // SAFETY: a place for the answer.
    unsafe { *time = NOW_MILLISECONDS };
    ffi::SQLITE_OK
}

unsafe extern "C" fn close(_file: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    target: *mut c_void,
    length: c_int,
    offset: i64,
) -> c_int {
    let bytes = usize::try_from(length).unwrap_or(0);
    // SAFETY: an open file, and memory for so many bytes, which may not have been written yet.
    let (volume, file, target) = unsafe {
        target.cast::<u8>().write_bytes(0, bytes);
        let target = std::slice::from_raw_parts_mut(target.cast::<u8>(), bytes);
        let (volume, file) = opened(file);
        (volume, file, target)
    };
    match volume.note(volume.read(file, unsigned(offset), target)) {
        None => ffi::SQLITE_IOERR_READ,
        Some(there) if there < bytes => ffi::SQLITE_IOERR_SHORT_READ,
        Some(_) => ffi::SQLITE_OK,
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    source: *const c_void,
    length: c_int,
    offset: i64,
) -> c_int {
    let bytes = usize::try_from(length).unwrap_or(0);
    // SAFETY: an open file, and so many bytes.
    let (volume, file, data) = unsafe {
        let (volume, file) = opened(file);
        (
            volume,
            file,
            std::slice::from_raw_parts(source.cast(), bytes),
        )
    };
    match volume.note(volume.write(file, unsigned(offset), data)) {
        Some(()) => ffi::SQLITE_OK,
        None => ffi::SQLITE_IOERR_WRITE,
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, length: i64) -> c_int {
    // SAFETY: an open file.
    let (volume, file) = unsafe { opened(file) };
    if volume.is_cut() {
        return ffi::SQLITE_IOERR_TRUNCATE;
    }
    volume.truncate(file, unsigned(length));
    ffi::SQLITE_OK
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: an open file.
    let (volume, _) = unsafe { opened(file) };
    match volume.note(volume.sync()) {
        Some(()) => ffi::SQLITE_OK,
        None => ffi::SQLITE_IOERR_FSYNC,
    }
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, length: *mut i64) -> c_int {
    // SAFETY: an open file, and a place for the answer.
    unsafe {
        let (volume, file) = opened(file);
        *length = volume.length(file).unwrap_or(0).cast_signed();
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn lock(_file: *mut ffi::sqlite3_file, _level: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(
    _file: *mut ffi::sqlite3_file,
    answer: *mut c_int,
) -> c_int {
    // SAFETY: a place for the answer.
    unsafe { *answer = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(
    _file: *mut ffi::sqlite3_file,
    _operation: c_int,
    _argument: *mut c_void,
) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_file: *mut ffi::sqlite3_file) -> c_int {
    c_int::try_from(SECTOR_BYTES).unwrap_or(c_int::MAX)
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: an open file, whose VFS outlives it.
    unsafe { (*(*file.cast::<OpenFile>()).shared).characteristics }
}

unsafe extern "C" fn shared_map(
    file: *mut ffi::sqlite3_file,
    index: c_int,
    length: c_int,
    extend: c_int,
    region: *mut *mut c_void,
) -> c_int {
    let index = usize::try_from(index).unwrap_or(0);
    let length = usize::try_from(length).unwrap_or(0);
    // SAFETY: an open file, and a place for the answer. The regions live as long as the volume
    // and never move.
    unsafe {
        let (volume, _) = opened(file);
        *region = volume.shared(index, length, extend != 0).cast();
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn shared_lock(
    _file: *mut ffi::sqlite3_file,
    _first: c_int,
    _count: c_int,
    _flags: c_int,
) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn shared_barrier(_file: *mut ffi::sqlite3_file) {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

unsafe extern "C" fn shared_unmap(_file: *mut ffi::sqlite3_file, _delete: c_int) -> c_int {
    ffi::SQLITE_OK
}
