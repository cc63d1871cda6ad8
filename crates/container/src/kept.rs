//! The last parts that were decompressed: small requests to neighbours come one after another, and
//! what is above asks for pages that are smaller than the parts.

use std::collections::VecDeque;
use std::sync::Arc;

use pagewell_base::sync::Mutex;

/// Bytes of the parts of a device, together: more than what is read ahead of one reader.
const BYTES_MAX: usize = 4 << 20;

/// See the module's text.
pub(crate) struct Kept<K> {
    parts: Mutex<VecDeque<(K, Arc<[u8]>)>>,
}

impl<K> Default for Kept<K> {
    fn default() -> Self {
        Self {
            parts: Mutex::default(),
        }
    }
}

impl<K: Copy + PartialEq> Kept<K> {
    pub(crate) fn get(&self, key: K) -> Option<Arc<[u8]>> {
        let mut parts = self.parts.lock();
        let index = parts.iter().position(|(it, _)| *it == key)?;
        let part = parts.remove(index)?;
        let bytes = part.1.clone();
        parts.push_back(part);
        Some(bytes)
    }

    pub(crate) fn put(&self, key: K, bytes: Arc<[u8]>) {
        let mut parts = self.parts.lock();
        parts.retain(|(it, _)| *it != key);
        parts.push_back((key, bytes));
        let mut sum: usize = parts.iter().map(|(_, bytes)| bytes.len()).sum();
        while sum > BYTES_MAX {
            match parts.pop_front() {
                Some((_, bytes)) => sum -= bytes.len(),
                None => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_goes_first() {
        let kept = Kept::default();
        let part = || Arc::from(vec![0; BYTES_MAX / 4]);
        (0..4).for_each(|key| kept.put(key, part()));
        assert!(kept.get(0).is_some());
        kept.put(4, part());
        assert!(kept.get(1).is_none() && kept.get(0).is_some() && kept.get(4).is_some());
    }
}
