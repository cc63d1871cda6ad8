//! A block device's queue in `/sys/dev/block/MAJOR:MINOR/queue/`.

use std::path::{Path, PathBuf};

pub(super) const BLOCK_DEVICES: &str = "/sys/dev/block";

/// Empty without a queue (tmpfs, btrfs).
pub(super) struct Queue {
    folder: Option<PathBuf>,
}

impl Queue {
    /// A partition has the queue of its disk, one folder up.
    pub(super) fn new(block_devices: &Path, major: u32, minor: u32) -> Self {
        let own = block_devices.join(format!("{major}:{minor}"));
        let candidates = [own.join("queue"), own.join("../queue")];
        Self {
            folder: candidates.into_iter().find(|folder| folder.is_dir()),
        }
    }

    fn number(&self, name: &str) -> Option<u64> {
        let text = std::fs::read_to_string(self.folder.as_ref()?.join(name)).ok()?;
        text.trim().parse().ok()
    }

    pub(super) fn transfer_bytes_max(&self) -> Option<u64> {
        let kib = self.number("max_sectors_kb").filter(|kib| *kib > 0)?;
        kib.checked_mul(1024)
    }

    /// Whether seeking costs time. Virtio always says so; but depth helps it.
    pub(super) fn rotational(&self) -> bool {
        self.number("rotational") == Some(1) && !self.is_virtual()
    }

    fn is_virtual(&self) -> bool {
        let real = self
            .folder
            .as_ref()
            .and_then(|folder| folder.canonicalize().ok());
        real.is_some_and(|real| {
            let mut names = real.iter().filter_map(|name| name.to_str());
            names.any(|name| name.starts_with("virtio"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_has_the_queue_of_its_disk() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        std::fs::create_dir_all(disk.join("queue")).unwrap();
        std::fs::create_dir_all(disk.join("part")).unwrap();
        std::fs::write(disk.join("queue/max_sectors_kb"), "1280\n").unwrap();
        std::fs::write(disk.join("queue/rotational"), "1\n").unwrap();
        for (link, to) in [("8:0", "disk"), ("8:1", "disk/part")] {
            std::os::unix::fs::symlink(to, folder.path().join(link)).unwrap();
        }
        for minor in [0, 1] {
            let queue = Queue::new(folder.path(), 8, minor);
            assert_eq!(queue.transfer_bytes_max(), Some(1280 * 1024));
            assert!(queue.rotational());
        }
        let none = Queue::new(folder.path(), 0, 42);
        assert_eq!(none.transfer_bytes_max(), None);
        assert!(!none.rotational());
    }

    #[test]
    fn a_virtual_disk_does_not_turn() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("pci0/virtio1/block/vda");
        std::fs::create_dir_all(disk.join("queue")).unwrap();
        std::fs::write(disk.join("queue/rotational"), "1\n").unwrap();
        std::os::unix::fs::symlink(&disk, folder.path().join("253:0")).unwrap();
        assert!(!Queue::new(folder.path(), 253, 0).rotational());
    }

    #[test]
    fn nonsense_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let queue = folder.path().join("8:0/queue");
        std::fs::create_dir_all(&queue).unwrap();
        for text in ["", "-1", "0", "18446744073709551615", "many"] {
            std::fs::write(queue.join("max_sectors_kb"), text).unwrap();
            assert_eq!(Queue::new(folder.path(), 8, 0).transfer_bytes_max(), None);
        }
    }
}
