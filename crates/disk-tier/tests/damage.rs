//! Whatever happens to the files of a disk tier, no page comes back with other bytes.

#![allow(clippy::unwrap_used)] // a failed check is a failed test

use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, mpsc};

use pagewell_base::mix::Random;
use pagewell_disk_tier::{PAGE_BYTES, PageName, Tier};

const SIZE: u64 = 8 << 20;
const SLOTS: usize = 128;

fn name(object: u8, page: u64) -> PageName {
    PageName {
        object: [object; 16],
        page,
    }
}

/// Bytes that no other page has.
fn content(name: PageName) -> Vec<u8> {
    let length = if name.page % 5 == 4 { 777 } else { PAGE_BYTES };
    let mut mix = Random(u64::from(name.object[0]) << 32 | name.page);
    let mut bytes = vec![0; length];
    bytes
        .chunks_mut(8)
        .for_each(|part| part.copy_from_slice(&mix.number().to_le_bytes()[..part.len()]));
    bytes
}

fn read(tier: &Arc<Tier>, name: PageName) -> Option<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    tier.read(name, move |found| {
        sender.send(found.map(<[u8]>::to_vec)).unwrap()
    });
    receiver.recv().unwrap()
}

/// Writes a page, and waits until it is there.
fn write(tier: &Arc<Tier>, name: PageName) {
    tier.write(name, &content(name));
    while !tier.has(&name) {
        std::thread::yield_now();
    }
}

#[test]
fn pages_are_there_after_a_restart_and_the_oldest_go() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("tier");
    let tier = Tier::open(&place, SIZE).unwrap();
    for page in 0..100 {
        write(&tier, name(1, page));
    }
    assert_eq!(read(&tier, name(1, 7)), Some(content(name(1, 7))));
    assert_eq!(read(&tier, name(1, 4)).unwrap().len(), 777);
    assert_eq!(read(&tier, name(1, 100)), None);
    assert_eq!(read(&tier, name(2, 7)), None, "another version");
    let busy = Tier::open(&place, SIZE).err().unwrap().to_string();
    assert!(busy.contains("in use"), "{busy}");
    // Nor does one that is refused change what the other one has.
    assert!(Tier::open(&place, SIZE / 2).is_err());
    assert_eq!(read(&tier, name(1, 99)), Some(content(name(1, 99))));
    drop(tier);
    let tier = Tier::open(&place, SIZE).unwrap();
    assert_eq!(tier.kept_pages(), 100);
    for page in 0..100 {
        assert_eq!(read(&tier, name(1, page)), Some(content(name(1, page))));
    }
    write(&tier, name(2, 0));
    assert_eq!(tier.kept_pages(), 101, "free slots come first");
    for page in 0..200 {
        write(&tier, name(3, page));
    }
    assert_eq!(tier.kept_pages(), SLOTS);
    assert_eq!(read(&tier, name(3, 199)), Some(content(name(3, 199))));
    drop(tier);
    let tier = Tier::open(&place, SIZE / 2).unwrap();
    assert!(tier.kept_pages() <= SLOTS / 2);
}

#[test]
fn a_folder_that_everybody_can_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("tier");
    drop(Tier::open(&place, SIZE).unwrap());
    assert_eq!(
        place.metadata().unwrap().permissions().mode() & 0o777,
        0o700
    );
    for (mode, is_refused) in [(0o707, true), (0o775, false)] {
        std::fs::set_permissions(&place, Permissions::from_mode(mode)).unwrap();
        let refused = Tier::open(&place, SIZE)
            .err()
            .map(|error| error.to_string());
        let is_said = refused.is_some_and(|text| text.contains("can be written by others"));
        assert_eq!(is_said, is_refused, "{mode:o}");
    }
}

#[test]
fn folders_of_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("letter"), "dear").unwrap();
    let refused = Tier::open(folder.path(), SIZE).err().unwrap().to_string();
    assert!(refused.contains("not empty"), "{refused}");
    std::fs::write(folder.path().join("index"), [7; 10_000]).unwrap();
    let refused = Tier::open(folder.path(), SIZE).err().unwrap().to_string();
    assert!(refused.contains("not one of a disk tier"), "{refused}");
    let kept = std::fs::read(folder.path().join("index")).unwrap();
    assert_eq!(kept, [7; 10_000], "nothing was changed");
    let begun = folder.path().join("begun");
    std::fs::create_dir(&begun).unwrap();
    std::fs::write(begun.join("index"), "").unwrap();
    let tier = Tier::open(&begun, SIZE).unwrap();
    write(&tier, name(1, 1));
    assert_eq!(read(&tier, name(1, 1)), Some(content(name(1, 1))));
    drop(tier);
    let small = Tier::open(&folder.path().join("small"), 1).err().unwrap();
    assert!(small.to_string().contains("at least 4 MiB"));
}

fn damage(mix: &mut Random, place: &Path) {
    let file = if mix.below(2) == 0 { "index" } else { "pages" };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(place.join(file))
        .unwrap();
    let length = file.metadata().unwrap().len();
    match mix.below(24) {
        0 => file.set_len(mix.below(length)).unwrap(),
        1..12 => flip(mix, &file, length),
        12..18 => {
            // A block is another one: a write that went astray.
            let mut block = [0; 4096];
            let at = |mix: &mut Random| mix.below(length / 4096 + 1) * 4096;
            let _ = file.read_at(&mut block, at(mix)).unwrap();
            file.write_all_at(&block, at(mix)).unwrap();
        }
        _ => (0..3).for_each(|_| flip(mix, &file, length)),
    }
}

fn flip(mix: &mut Random, file: &File, length: u64) {
    let at = 4096 + mix.below(length - 4096);
    let mut byte = [0];
    if file.read_at(&mut byte, at).unwrap() == 1 {
        byte[0] ^= 1 << mix.below(8);
        file.write_all_at(&byte, at).unwrap();
    }
}

/// A thousand rounds of flipped bits, cut files and blocks in wrong places.
#[test]
fn damage_is_a_miss() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("tier");
    let mut mix = Random(11);
    let (mut hits, mut misses) = (0, 0);
    for round in 0..1000 {
        let tier = match Tier::open(&place, SIZE) {
            Ok(tier) => tier,
            Err(refused) => {
                assert!(
                    refused.to_string().contains("no disk tier")
                        || refused.to_string().contains("not one"),
                    "{refused}"
                );
                std::fs::remove_dir_all(&place).unwrap();
                continue;
            }
        };
        for _ in 0..6 {
            write(&tier, name(mix.below(3) as u8, mix.below(60)));
        }
        for _ in 0..12 {
            let name = name(mix.below(3) as u8, mix.below(60));
            match read(&tier, name) {
                Some(found) => {
                    assert!(found == content(name), "round {round}");
                    hits += 1;
                }
                None => misses += 1,
            }
        }
        drop(tier);
        damage(&mut mix, &place);
    }
    assert!(hits > 1000 && misses > 1000, "{hits} {misses}");
}
