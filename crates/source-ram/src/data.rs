//! The bytes of one regular file: a sparse map of pages.
//!
//! Problem: a read returns the bytes without a copy, which a later write must not change; holes
//! must cost nothing, small files little.
//!
//! ```text
//!   file:   0        64 KiB     128 KiB    192 KiB      size
//!           |  page 0   |   hole    |  page 2   |  page 3 |
//!                                                 ^ shorter than a whole page
//! ```
//!
//! Rule: a page holds the bytes from its start to some length; the rest up to the next page is
//! zero, as is every missing page. A read clones the `Arc` of each page. A write changes a page
//! with one owner in place, and replaces one that a reader holds by a changed copy. A page has the
//! capacity (a power of two from 4 KiB) that its bytes need; the successor of a whole page starts
//! whole, as files are mostly written from front to back. Shrinking cuts the last page: those bytes
//! must not come back when the file grows again.
//!
//! Known weakness: a file written backwards in small pieces copies each page several times.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use pagewell_counters::names::COPIED_BYTES;
use pagewell_fs::{PageSlice, Result};

use super::memory::{PAGE_BYTES, RamPage, capacity_for};
use super::quota::Storage;

pub(super) static ZEROS: LazyLock<Arc<[u8; PAGE_BYTES]>> =
    LazyLock::new(|| Arc::new([0; PAGE_BYTES]));

/// Pages, each charged to the quota with its capacity.
#[derive(Default)]
pub(super) struct FileData {
    size: u64,
    /// The charge of all pages.
    pub(super) charged_bytes: u64,
    pub(super) pages: Pages,
}

/// Pages by number. Those that leave a file are dropped without locks, as that takes a while.
pub(super) type Pages = BTreeMap<u64, Arc<RamPage>>;

impl FileData {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// At most `count` bytes from `offset`, fewer at the end of the file.
    pub(super) fn read(&self, offset: u64, count: u32) -> Vec<PageSlice> {
        let end = offset.saturating_add(u64::from(count)).min(self.size);
        let mut slices = Vec::new();
        let mut at = offset;
        while at < end {
            let (number, start) = split(at);
            let stop = usize::try_from(end - at).map_or(PAGE_BYTES, |rest| {
                PAGE_BYTES.min(start.saturating_add(rest))
            });
            at += (stop - start) as u64;
            let mut from = start;
            if let Some(page) = self.pages.get(&number) {
                let held = (**page).as_ref().len().min(stop);
                if from < held {
                    slices.push(PageSlice::new(page.clone(), from, held - from));
                    from = held;
                }
            }
            if from < stop {
                slices.push(PageSlice::new(ZEROS.clone(), 0, stop - from));
            }
        }
        slices
    }

    /// Writes `data` at `offset` and returns how many bytes there was space for. Without space for
    /// any, [`pagewell_fs::Error::NoSpace`], and nothing has changed.
    pub(super) fn write(&mut self, offset: u64, data: &[u8], storage: &Storage) -> Result<usize> {
        let mut done = 0;
        while done < data.len() {
            let (number, start) = split(offset + done as u64);
            let length = (data.len() - done).min(PAGE_BYTES - start);
            if let Err(error) = self.write_page(number, start, &data[done..done + length], storage)
            {
                if done == 0 {
                    return Err(error);
                }
                break;
            }
            done += length;
        }
        if done > 0 {
            self.size = self.size.max(offset + done as u64);
            COPIED_BYTES.add(done as u64);
        }
        Ok(done)
    }

    pub(super) fn write_page(
        &mut self,
        number: u64,
        start: usize,
        data: &[u8],
        storage: &Storage,
    ) -> Result<()> {
        let end = start + data.len();
        let of_page = |page: &Arc<RamPage>| (page.capacity(), (**page).as_ref().len());
        let (held, length) = self.pages.get(&number).map_or((0, 0), of_page);
        if end <= held
            && let Some(page) = self.pages.get_mut(&number).and_then(Arc::get_mut)
        {
            page.write(start, data);
            return Ok(());
        }
        let capacity = self.grow(number, held, end, storage)?;
        // Overwritten bytes need no copy, unless bytes follow them.
        let keep = if end >= length { start } else { length };
        let page = self.copy_of(number, capacity, keep, storage);
        let mut page = page.inspect_err(|_| self.release((capacity - held) as u64, storage))?;
        page.write(start, data);
        self.pages.insert(number, Arc::new(page));
        Ok(())
    }

    /// Charges the growth of page `number` from `held` bytes to `end`; returns its capacity.
    fn grow(&mut self, number: u64, held: usize, end: usize, storage: &Storage) -> Result<usize> {
        if end <= held {
            return Ok(held);
        }
        let least = capacity_for(end);
        let after_whole = number
            .checked_sub(1)
            .and_then(|before| self.pages.get(&before))
            .is_some_and(|page| page.capacity() == PAGE_BYTES);
        let capacity = if after_whole && storage.quota.take((PAGE_BYTES - held) as u64).is_ok() {
            PAGE_BYTES
        } else {
            storage.quota.take((least - held) as u64)?;
            least
        };
        self.charged_bytes += (capacity - held) as u64;
        Ok(capacity)
    }

    pub(super) fn release(&mut self, bytes: u64, storage: &Storage) {
        self.charged_bytes -= bytes;
        storage.quota.give(bytes);
    }

    /// A page in place of `number`, with the first `keep` of its bytes.
    pub(super) fn copy_of(
        &self,
        number: u64,
        capacity: usize,
        keep: usize,
        storage: &Storage,
    ) -> Result<RamPage> {
        let mut page = storage.arena.allocate(capacity)?;
        if let Some(old) = self.pages.get(&number) {
            let old: &[u8] = (**old).as_ref();
            let kept = old.len().min(keep);
            page.write(0, &old[..kept]);
            COPIED_BYTES.add(kept as u64);
        }
        Ok(page)
    }

    /// Cuts the file to `size` bytes, or adds a hole. Returns the pages cut off.
    pub(super) fn set_size(&mut self, size: u64, storage: &Storage) -> Result<Pages> {
        if size >= self.size {
            self.size = size;
            return Ok(Pages::default());
        }
        let (number, keep) = split(size);
        if keep > 0 {
            self.cut_page(number, capacity_for(keep), keep, storage)?;
        }
        self.size = size;
        let cut = self.pages.split_off(&(number + u64::from(keep > 0)));
        Ok(self.discard(cut, storage))
    }

    pub(super) fn discard(&mut self, pages: Pages, storage: &Storage) -> Pages {
        let bytes = pages.values().map(|page| page.capacity() as u64).sum();
        self.release(bytes, storage);
        pages
    }

    /// Zeros the bytes of a page from `keep` on, and shrinks a page of more than `capacity`.
    pub(super) fn cut_page(
        &mut self,
        number: u64,
        capacity: usize,
        keep: usize,
        storage: &Storage,
    ) -> Result<()> {
        let Some(page) = self.pages.get_mut(&number) else {
            return Ok(());
        };
        let held = page.capacity();
        let capacity = capacity.min(held);
        if capacity == held
            && let Some(page) = Arc::get_mut(page)
        {
            page.truncate(keep);
            return Ok(());
        }
        let page = self.copy_of(number, capacity, keep, storage)?;
        self.pages.insert(number, Arc::new(page));
        self.release((held - capacity) as u64, storage);
        Ok(())
    }
}

pub(super) fn split(offset: u64) -> (u64, usize) {
    let page_bytes = PAGE_BYTES as u64;
    (offset / page_bytes, (offset % page_bytes) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewell_fs::Error;

    fn content(data: &FileData) -> Vec<u8> {
        let count = u32::try_from(data.size()).unwrap();
        data.read(0, count)
            .iter()
            .flat_map(|slice| slice.to_vec())
            .collect()
    }

    fn charged(data: &FileData) -> u64 {
        data.pages.values().map(|page| page.capacity() as u64).sum()
    }

    #[test]
    fn a_reader_never_sees_later_bytes() {
        let storage = Storage::new(1 << 20).unwrap();
        let mut data = FileData::default();
        data.write(0, &[1; 100_000], &storage).unwrap();
        let pinned = data.read(0, 100_000);
        data.write(50_000, &[2; 50_000], &storage).unwrap();
        drop(data.set_size(10, &storage).unwrap());
        data.write(0, &[3; 10], &storage).unwrap();
        assert!(
            pinned
                .iter()
                .all(|slice| slice.iter().all(|byte| *byte == 1))
        );
        assert_eq!(
            pinned.iter().map(|slice| slice.len()).sum::<usize>(),
            100_000
        );
        assert_eq!(content(&data), [3; 10]);
    }

    #[test]
    fn a_write_that_no_reader_sees_stays_in_place() {
        let storage = Storage::new(1 << 20).unwrap();
        let mut data = FileData::default();
        data.write(0, &[1; 65_536], &storage).unwrap();
        let place = (*data.pages[&0]).as_ref().as_ptr();
        data.write(5, b"x", &storage).unwrap();
        assert_eq!((*data.pages[&0]).as_ref().as_ptr(), place);
        assert_eq!(storage.quota.used_bytes(), 65_536);
    }

    #[test]
    fn holes_are_free_and_zero() {
        let storage = Storage::new(1 << 20).unwrap();
        let mut data = FileData::default();
        drop(data.set_size(i64::MAX as u64, &storage).unwrap());
        assert_eq!(storage.quota.used_bytes(), 0);
        data.write(1 << 40, b"far", &storage).unwrap();
        assert_eq!(storage.quota.used_bytes(), 4096);
        let slices = data.read((1 << 40) - 100_000, 200_000);
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        assert_eq!(bytes.len(), 200_000);
        assert_eq!(&bytes[100_000..100_003], b"far");
        assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 3);
        assert!(data.read(u64::MAX, 10).is_empty());
    }

    #[test]
    fn what_is_cut_off_does_not_come_back() {
        let storage = Storage::new(1 << 20).unwrap();
        for cut in [0, 1, 511, 65_535, 65_536, 65_537, 131_000] {
            let mut data = FileData::default();
            data.write(0, &[7; 140_000], &storage).unwrap();
            drop(data.set_size(cut, &storage).unwrap());
            assert_eq!(data.charged_bytes, charged(&data));
            drop(data.set_size(140_000, &storage).unwrap());
            let cut = usize::try_from(cut).unwrap();
            let bytes = content(&data);
            assert!(bytes[..cut].iter().all(|byte| *byte == 7));
            assert!(bytes[cut..].iter().all(|byte| *byte == 0));
            drop(data.set_size(0, &storage).unwrap());
            assert_eq!(storage.quota.used_bytes(), 0);
        }
    }

    #[test]
    fn a_full_quota_cuts_a_write_at_a_page_or_refuses_it() {
        let storage = Storage::new(3 * 65_536 - 1).unwrap();
        let mut data = FileData::default();
        assert_eq!(data.write(0, &[1; 200_000], &storage), Ok(131_072));
        assert_eq!(data.size(), 131_072);
        assert_eq!(
            data.write(131_072, &[1; 40_000], &storage),
            Err(Error::NoSpace)
        );
        assert_eq!(data.size(), 131_072);
        assert_eq!(data.write(131_072, &[1; 20_000], &storage), Ok(20_000));
        // Over what is there already, also while a reader holds it, there is always space.
        let pinned = data.read(0, 1000);
        assert_eq!(data.write(0, &[2; 131_072], &storage), Ok(131_072));
        drop(pinned);
        assert_eq!(storage.quota.used_bytes(), data.charged_bytes);
        assert_eq!(data.charged_bytes, charged(&data));
    }

    #[test]
    fn random_writes_and_cuts_equal_a_vector() {
        let storage = Storage::new(1 << 24).unwrap();
        let mut data = FileData::default();
        let mut model: Vec<u8> = Vec::new();
        let mut pinned = Vec::new();
        let mut seed = 0x1234_5678_u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(seed >> 33).unwrap() % below
        };
        for round in 0..2000 {
            let at = random(300_000);
            if random(4) == 0 {
                drop(data.set_size(at as u64, &storage).unwrap());
                model.resize(at, 0);
            } else {
                let length = 1 + random(if round % 2 == 0 { 100 } else { 100_000 });
                let byte = u8::try_from(round % 251).unwrap();
                let bytes = vec![byte; length];
                assert_eq!(data.write(at as u64, &bytes, &storage), Ok(length));
                model.resize(model.len().max(at + length), 0);
                model[at..at + length].copy_from_slice(&bytes);
            }
            if random(10) == 0 {
                pinned = data.read(0, u32::MAX);
            }
            if random(10) == 0 {
                pinned.clear();
            }
            if round % 20 == 0 {
                assert!(content(&data) == model, "round {round}");
            }
            assert_eq!(data.charged_bytes, charged(&data));
            assert_eq!(data.charged_bytes, storage.quota.used_bytes());
        }
    }
}
