//! Many files: tar and cpio over a disc.
//!
//! The disc is a layout without content: directories of one sector, files behind them. The files of
//! a directory lie together, in an order unrelated to their names, as mastering programs leave
//! them. tar reads a directory by names and so jumps about in it; cpio was fed by find and takes
//! files in their order on the disc. Both read the sector of each directory first. The cache gets
//! the bounds of each file, as from the readers of images.

use pagewell_base::mix::Random;
use pagewell_cache::Bounds;
use pagewell_device::Issuer;
use pagewell_load::measure::Runs;

use super::job::{Job, Read};
use super::rig::{Rig, Run, Setup};
use super::rows::{Look, interleave, reference, row};
use super::variant::Variant;
use crate::experiment::{Mode, Phase, Result, Session};

const SECTOR_BYTES: u64 = 2048;
const FILES_PER_DIRECTORY: u64 = 40;
/// Blocks of both programs' reads.
const BLOCK_BYTES: u64 = 8192;
const CACHE_BYTES: u64 = 32 << 20;
const SPEED: f64 = 20.0;
/// Bytes of the report's programs: 6,944,256 blocks of 512, as cpio said.
pub(super) const REPORT_BYTES: u64 = 6_944_256 * 512;
/// Seconds of the report: program, before, after.
pub(super) const REPORT: [(&str, f64, f64); 2] =
    [("tar", 5216.636, 4771.187), ("cpio", 2175.867, 1702.953)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    offset: u64,
    length: u64,
}

/// A directory: its sector, and its files in their order on the disc.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Directory {
    sector: u64,
    files: Vec<Extent>,
}

/// Directories, and the bytes of the disc.
struct Layout {
    directories: Vec<Directory>,
    length_bytes: u64,
}

impl Layout {
    /// Sizes from 1 KiB to 512 KiB, as many in each power of two.
    fn new(directories: u64) -> Self {
        let mut random = Random(1);
        let mut at = directories * SECTOR_BYTES;
        let directory = |index| {
            let files = (0..FILES_PER_DIRECTORY).map(|_| {
                let power = 10 + random.below(9);
                let length = (1 << power) + random.below(1 << power);
                let offset = at;
                at += length.next_multiple_of(SECTOR_BYTES);
                Extent { offset, length }
            });
            Directory {
                sector: index * SECTOR_BYTES,
                files: files.collect(),
            }
        };
        let directories = (0..directories).map(directory).collect();
        Self {
            directories,
            length_bytes: at,
        }
    }

    fn bytes(&self) -> u64 {
        let files = self
            .directories
            .iter()
            .flat_map(|directory| &directory.files);
        files.map(|file| file.length).sum()
    }

    /// The reads of one program.
    fn job(&self, name: &str, by_name: bool) -> Job {
        let mut reads = Vec::new();
        let mut random = Random(2);
        for directory in &self.directories {
            reads.push(Read {
                offset: directory.sector,
                length: usize::try_from(SECTOR_BYTES).unwrap_or(0),
                issuer: Issuer::Metadata,
                bounds: None,
            });
            let mut files = directory.files.clone();
            if by_name {
                files.sort_by_cached_key(|_| random.number());
            }
            for file in files {
                let blocks = (0..file.length).step_by(BLOCK_BYTES as usize);
                reads.extend(blocks.map(|start| Read {
                    offset: file.offset + start,
                    length: usize::try_from(BLOCK_BYTES.min(file.length - start)).unwrap_or(0),
                    issuer: Issuer::Reader,
                    bounds: Some(Bounds {
                        start: file.offset,
                        end: file.offset + file.length,
                    }),
                }));
            }
        }
        Job {
            name: name.to_owned(),
            reads: Box::new(reads.into_iter()),
        }
    }
}

pub(super) fn run(session: &mut Session) -> Result<()> {
    let layout = Layout::new(session.options().amount(12, 100));
    session.note(format!(
        "tar, cpio: {} files in {} directories, {}; the report had 3.56 GB",
        layout.directories.len() as u64 * FILES_PER_DIRECTORY,
        layout.directories.len(),
        pagewell_load::report::bytes(layout.bytes()),
    ));
    for (program, before, after) in REPORT {
        let variants = [Variant::BASELINE, Variant::REPORT, Variant::ENHANCED];
        let once = |session: &Session, variant: &Variant| once(session, &layout, program, variant);
        let repeats = interleave(session, program, &variants, once, |variant, runs| {
            let row = row(program, variant, Phase::Cold, Look::Seconds, runs);
            let is_before = variant.mode == Mode::Baseline;
            reference(row, if is_before { before } else { after }, "s")
        })?;
        let mean = |place: usize| repeats.mean(|runs| runs.get(place).map_or(0.0, Run::seconds));
        let (baseline, enhanced) = (mean(0), mean(2));
        let saved = (1.0 - enhanced / baseline) * 100.0;
        let reported = (1.0 - after / before) * 100.0;
        session.verdict(
            saved >= reported,
            format!("{program}: {saved:.1} % less time; the report's {reported:.1} % wanted"),
        );
    }
    Ok(())
}

fn once(session: &Session, layout: &Layout, program: &str, variant: &Variant) -> Result<Run> {
    let setup = Setup {
        length_bytes: layout.length_bytes,
        cache_bytes: CACHE_BYTES,
        speed: SPEED,
        queue_depth: 1,
    };
    let rig = Rig::new(variant, setup)?;
    let job = layout.job(program, program == "tar");
    rig.run(vec![job], None, session.deadline())
}

#[cfg(test)]
mod tests {
    use super::super::virtual_drive;
    use super::*;

    #[test]
    fn both_programs_read_every_byte_once_in_their_own_order() {
        let layout = Layout::new(3);
        let sums = ["tar", "cpio"].map(|name| {
            let reads: Vec<Read> = layout.job(name, name == "tar").reads.collect();
            let data = reads.iter().filter(|read| read.issuer == Issuer::Reader);
            let bytes: u64 = data.clone().map(|read| read.length as u64).sum();
            assert_eq!(bytes, layout.bytes());
            let end = data
                .clone()
                .map(|read| read.offset + read.length as u64)
                .max();
            assert!(end.unwrap() <= layout.length_bytes);
            let offsets: Vec<u64> = data.map(|read| read.offset).collect();
            offsets.is_sorted()
        });
        assert_eq!(sums, [false, true]);
    }

    /// [`walk_once`] until two runs agree: nothing depends on the machine, but for streams that a
    /// very busy one keeps silent for a second.
    fn walk(name: &str, is_told: bool) -> (u64, u64, u64) {
        let mut before = walk_once(name, is_told);
        for _ in 0..20 {
            let again = walk_once(name, is_told);
            if again == before {
                return again;
            }
            before = again;
        }
        panic!("no two runs agree: {before:?}");
    }

    /// Runs a program over a disc of 20 directories, eight times as long as the cache, in virtual
    /// time: requests of the drive, its bytes, and the bytes that the program wanted.
    fn walk_once(name: &str, is_told: bool) -> (u64, u64, u64) {
        let layout = Layout::new(20);
        let mut job = layout.job(name, name == "tar");
        if !is_told {
            job.reads = Box::new(job.reads.map(|read| Read {
                bounds: None,
                ..read
            }));
        }
        let drive = virtual_drive::run(job, layout.length_bytes, 8 << 20);
        let wanted = layout.bytes() + layout.directories.len() as u64 * SECTOR_BYTES;
        (drive.requests(), drive.bytes(), wanted)
    }

    #[test]
    fn known_ends_of_files_save_bytes_and_cost_no_requests() {
        let (requests, bytes, wanted) = walk("tar", true);
        // Without them it is 1.68 times the bytes, with them 1.09.
        assert!(bytes * 100 <= wanted * 115, "{bytes} of {wanted}");
        let blind = walk("tar", false);
        assert!(bytes * 3 < blind.1 * 2, "{bytes} {blind:?}");
        assert!(requests <= blind.0, "{requests} {blind:?}");
        let [told, blind] = [true, false].map(|is_told| walk("cpio", is_told).0);
        // 595 and 593.
        assert!(told * 100 <= blind * 102, "{told} {blind}");
    }
}
