//! Addresses of the process. They are used up here, so this is a process of its own.

use pagewell_fs::OpenFile;

/// Whatever is mapped, large memory can be had.
#[test]
fn mappings_leave_addresses_for_all_else() {
    let empty = tempfile::tempfile().unwrap();
    let mut kept = Vec::new();
    for shift in (24..=40).rev() {
        let map = || {
            let file = OpenFile::new(empty.try_clone().unwrap().into());
            file.mapped((1 << shift) - 4096, 4096)
        };
        kept.extend(std::iter::from_fn(map));
    }
    assert!(!kept.is_empty());
    let mut memory = Vec::<u8>::new();
    memory.try_reserve_exact(64 << 20).unwrap();
}
