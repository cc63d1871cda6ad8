//! Faults that reading survives, with place and clause. Descriptors are checked when an image is
//! opened, records whenever they are parsed; a list of violations has each fault once.

use super::descriptor::Descriptor;
use super::descriptor_set::DescriptorSet;
use super::node::Recorded;
use super::number::TYPE_BITS;
use super::record::Record;
use super::time;
use super::volume::Volume;
use pagewell_source_bytes::Violations;

/// In `st_mode`.
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;

pub(super) fn descriptors(
    violations: &Violations,
    (start, set): (u64, &DescriptorSet),
    length_bytes: u64,
) {
    if !set.is_terminated {
        let last = set.end_position;
        violations.note(last, "ECMA-119 8.3", "no terminator ends the descriptors");
    }
    if set.primary.is_none() {
        violations.note(start, "ECMA-119 8.4", "no primary volume descriptor");
    }
    let all = [&set.primary, &set.joliet, &set.enhanced];
    for found in all.into_iter().flatten() {
        descriptor(violations, found);
    }
    if let Some(main) = set.main() {
        let missing = main.missing_bytes(start, length_bytes);
        if missing > 0 {
            let text = format_args!("the image lacks the last {missing} bytes of the volume");
            violations.note(main.position, "ECMA-119 8.4.8", text);
        }
    }
}

fn descriptor(violations: &Violations, found: &Descriptor) {
    let note = |clause, text: &str| violations.note(found.position, clause, text);
    if !found.halves_agree {
        let text = "the number of blocks or their length differs between its two byte orders";
        note("ECMA-119 8.4.8", text);
    }
    if !found.has_sound_blocks() {
        note("ECMA-119 8.4.12", "a length of blocks that cannot be");
    }
    if found.root.is_none() {
        note(
            "ECMA-119 8.4.18",
            "the record of the root directory is damaged",
        );
    }
}

pub(super) fn record(volume: &Volume, position: u64, record: &Record) {
    let extent = record.extent_halves();
    if extent.little != extent.big {
        let text = format_args!("its extent is {} and {}", extent.little, extent.big);
        volume.note(position, "ECMA-119 9.1.3", text);
    }
    let length = record.length_halves();
    if length.little != length.big {
        let text = format_args!("its data length is {} and {}", length.little, length.big);
        volume.note(position, "ECMA-119 9.1.4", text);
    }
    let is_date =
        |bytes: &[u8]| time::short(bytes).is_some() || bytes.iter().all(|byte| *byte == 0);
    if !is_date(record.time_bytes()) {
        volume.note(position, "ECMA-119 9.1.5", "its time is no date");
    }
}

pub(super) fn object(volume: &Volume, position: u64, recorded: &Recorded) {
    record(volume, position, &recorded.record);
    if let Some(defect) = recorded.defect {
        volume.note(position, "ECMA-119 9.1.6", defect);
    }
    let is_missing = |end: Option<u64>| end.is_none_or(|end| end > volume.length_bytes);
    let ends = recorded
        .sections
        .iter()
        .filter(|section| section.length > 0)
        .map(|section| section.position.checked_add(u64::from(section.length)));
    if ends.into_iter().any(is_missing) {
        let text = "its data reaches past the end of the image";
        volume.note(position, "ECMA-119 9.1.3", text);
    }
    rock_ridge(volume, position, recorded);
}

fn rock_ridge(volume: &Volume, position: u64, recorded: &Recorded) {
    let Some(found) = &recorded.rock_ridge else {
        return;
    };
    let note = |clause, text: &str| volume.note(position, clause, text);
    let mode = found.posix.map(|posix| posix.mode & TYPE_BITS);
    let is_directory = recorded.record.is_directory() || found.child.is_some();
    match mode {
        None => note("RRIP 4.1.1", "no PX entry"),
        Some(mode) if (mode == DIRECTORY) != is_directory => {
            note(
                "RRIP 4.1.1",
                "the type in its mode contradicts the directory flag",
            );
        }
        Some(LINK) if !matches!(found.target(), Some(Some(_))) => {
            note("RRIP 4.1.3", "the target of a symbolic link is damaged");
        }
        Some(_) => {}
    }
    if found.has_bad_name() {
        note(
            "RRIP 4.1.4",
            "a name that is none, in place of which the identifier is shown",
        );
    }
    if found.has_bad_compression {
        note(
            "zisofs ZF",
            "an entry that contradicts itself: the data is shown as recorded",
        );
    }
    if let Some(compression) = found
        .compression
        .filter(|found| !found.fits(recorded.size()))
    {
        let size = compression.size();
        let text = format!("too little data for {size} bytes: it is shown as recorded");
        note("zisofs ZF", &text);
    }
}
