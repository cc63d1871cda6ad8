//! Where a page probably is, before the page table has said so.
//!
//! **Problem.** The slot of a page in a large table is not in the processor's caches, and its bytes
//! cannot be asked for before it has come: two trips to memory, one after the other.
//!
//! **Rule.** Pages that were read in order lie in order: frame minus page is the same. One word for
//! an extent of pages keeps that difference, and how often it was right in a row; if it was lately,
//! the processor is asked for the bytes while the slot is on its way. Only insertions teach, so
//! that hits write nothing that processors share.
//!
//! ```text
//!  31                      2 1          0
//! +-------------------------+------------+
//! | frame of the first page | confidence |     one for each extent, without a name
//! +-------------------------+------------+
//! ```
//!
//! **Constants.** An extent is 128 pages: the words for 4 GiB are 2 KiB, which stay near the
//! processor while 8 KiB reads pass through its caches. Confidence goes to 3, and 2 are enough: one
//! page that lies elsewhere does not end guessing, two do.
//!
//! **Known weaknesses.** Pages that came at random are not guessed, nor those that two readers
//! brought in turn. Extents that share a word teach it different things.

use std::sync::atomic::{AtomicU32, Ordering};

use pagewell_policy::eviction::FrameIndex;

use crate::page::PAGE_BITS;

const EXTENT_PAGES: u64 = 128;
/// Words for more extents than there is memory, so that few share one.
const FRAMES_PER_WORD: usize = 32;
const WORDS_MIN: usize = 64;
const CONFIDENCE_BITS: u32 = 2;
const CONFIDENCE_MAX: u32 = (1 << CONFIDENCE_BITS) - 1;
const CONFIDENT: u32 = 2;
/// Frames count round at this, below zero too; so many pages are 64 TiB.
const FRAME_MASK: u32 = u32::MAX >> CONFIDENCE_BITS;
/// Spreads devices, whose number is above the page in a key (2^64 divided by the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// What was learned of where pages are.
pub(crate) struct Locality(Box<[AtomicU32]>);

impl Locality {
    /// For a cache of so many pages.
    pub(crate) fn new(frames: u32) -> Self {
        let words = (frames as usize / FRAMES_PER_WORD).max(WORDS_MIN);
        let words = words.next_power_of_two();
        Self((0..words).map(|_| AtomicU32::new(0)).collect())
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // any bits will do
    fn word(&self, key: u64) -> &AtomicU32 {
        let device = (key >> PAGE_BITS).wrapping_mul(SPREAD) >> 32;
        let extent = key / EXTENT_PAGES;
        &self.0[extent.wrapping_add(device) as usize & (self.0.len() - 1)]
    }

    /// Where the page may be; any frame, there or not.
    #[inline]
    pub(crate) fn guess(&self, key: u64) -> Option<FrameIndex> {
        let word = self.word(key).load(Ordering::Relaxed);
        let first = word >> CONFIDENCE_BITS;
        let is_confident = word & CONFIDENCE_MAX >= CONFIDENT;
        is_confident.then(|| FrameIndex(first.wrapping_add(inside(key)) & FRAME_MASK))
    }

    /// A page has come into a frame. Two at the same time may lose one: it is a hint.
    pub(crate) fn learn(&self, key: u64, frame: FrameIndex) {
        let word = self.word(key);
        let known = word.load(Ordering::Relaxed);
        let confidence = known & CONFIDENCE_MAX;
        let first = frame.0.wrapping_sub(inside(key)) << CONFIDENCE_BITS;
        let learned = if known & !CONFIDENCE_MAX == first {
            first | (confidence + 1).min(CONFIDENCE_MAX)
        } else if confidence > 0 {
            known - 1
        } else {
            first
        };
        if learned != known {
            word.store(learned, Ordering::Relaxed);
        }
    }
}

/// Which page of its extent.
#[inline]
#[allow(clippy::cast_possible_truncation)] // less than an extent
fn inside(key: u64) -> u32 {
    (key % EXTENT_PAGES) as u32
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::page::key_of;

    #[test]
    fn pages_in_order_are_guessed_and_two_elsewhere_end_that() {
        let guesses = Locality::new(4096);
        let key = |page| key_of(1, page);
        assert_eq!(guesses.guess(key(300)), None);
        for page in 300..304 {
            guesses.learn(key(page), FrameIndex(1000 + u32::try_from(page).unwrap()));
        }
        assert_eq!(
            guesses.guess(key(383)),
            Some(FrameIndex(1383)),
            "its extent"
        );
        assert_eq!(guesses.guess(key(384)), None, "the next one");
        assert_eq!(guesses.guess(key_of(2, 300)), None, "another device");
        guesses.learn(key(310), FrameIndex(7));
        assert_eq!(guesses.guess(key(311)), Some(FrameIndex(1311)));
        guesses.learn(key(320), FrameIndex(9));
        assert_eq!(guesses.guess(key(311)), None);
    }

    #[test]
    fn an_extent_may_begin_before_the_first_frame() {
        let guesses = Locality::new(64);
        (0..4).for_each(|at| guesses.learn(100 + u64::from(at), FrameIndex(at)));
        assert_eq!(guesses.guess(105), Some(FrameIndex(5)));
    }

    #[test]
    fn pages_at_random_are_not_guessed() {
        let guesses = Locality::new(4096);
        for page in 0..128u32 {
            let elsewhere = FrameIndex(page.wrapping_mul(0x9e37_79b9) % 4096);
            guesses.learn(u64::from(page), elsewhere);
            assert_eq!(guesses.guess(u64::from(page)), None, "{page}");
        }
    }
}
