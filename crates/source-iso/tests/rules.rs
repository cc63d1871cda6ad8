//! Rules where readers disagree, each with an image written by hand.

#![allow(clippy::unwrap_used)]

mod support;

use pagewell_fs::{Attributes, Credentials, FileSystem, FileType};
use pagewell_source_iso::{IsoFileSystem, IsoOptions, TreeKind};
use support::builder::{
    ASSOCIATED, Image, JOLIET_ROOT, MORE, ROOT, Record, both, ce, cl, descriptor, entry, er,
    joliet_file, nm, nm_more, pack, pl, px, re, sl, sp, utf16,
};
use support::crafted::{GOOD, check, check_with, plain, rock_ridge};
use support::{SECTOR, WHOLE, call, display, list, open_bytes, walk};

fn attributes(fs: &IsoFileSystem, name: &[u8]) -> Attributes {
    walk(fs, WHOLE)[name].attributes
}

/// A root directory of these bytes instead, with two records for itself before them.
fn root_of(image: &mut Image, sectors: u32, records: &[Vec<u8>]) {
    let length = sectors * 2048;
    let mut all = vec![
        Record::directory("\0", ROOT, length).bytes(),
        Record::directory("\x01", ROOT, length).bytes(),
    ];
    all.extend_from_slice(records);
    image.put(ROOT, &pack(&all));
}

// Rule 4: what turns Rock Ridge on.

#[test]
fn one_known_extension_among_others_is_rock_ridge() {
    let file = Record::file("G.;1", 40, 4).with(&[nm(b"good.txt")]);
    let long = [er("AAIP_0200"), er("IEEE_1282")].concat();
    for own in [
        vec![sp(0), er("AAIP_0200"), er("RRIP_1991A")],
        vec![sp(0), er("IEEE_1282")],
        vec![sp(0)],
        vec![sp(0), ce(41, 100, long.len())],
    ] {
        let mut image = plain(&[]);
        image.put(41, &[&[0; 100][..], &long].concat());
        image.directory_with(ROOT, ROOT, (&own, &[]), std::slice::from_ref(&file));
        assert_eq!(check(&image, &[GOOD]).tree_kind(), TreeKind::RockRidge);
    }
}

#[test]
fn an_extension_whose_name_reaches_past_its_entry_is_none() {
    // Nothing known announced, nothing unknown either: the entry is damaged.
    let mut damaged = er("RRIP_1991A");
    damaged[4] = 200;
    let file = Record::file("G.;1", 40, 4).with(&[nm(b"good.txt")]);
    let mut image = plain(&[]);
    image.directory_with(ROOT, ROOT, (&[sp(0), damaged], &[]), &[file]);
    assert_eq!(check(&image, &[GOOD]).tree_kind(), TreeKind::RockRidge);
}

#[test]
fn system_use_of_other_systems_is_no_rock_ridge() {
    for bytes in [
        &b"UXA"[..],
        &[0; 14],
        b"\0\0\0\0\x8d\x55XA\0\0\0\0\0\0",
        b"SP",
        b"SP\x07\x01",
    ] {
        let own = vec![bytes.to_vec()];
        let file = Record::file("GOOD.TXT;1", 40, 4).with(&own);
        let mut image = plain(&[]);
        image.directory_with(ROOT, ROOT, (&own, &own), &[file]);
        assert_eq!(check(&image, &[GOOD]).tree_kind(), TreeKind::Plain);
    }
}

// Rule 5: whose attributes a directory has.

#[test]
fn a_directory_has_the_attributes_of_its_own_record_and_its_parents_name() {
    let shown = Record::directory("D", 41, 2048).with(&[nm(b"named"), px(0o040_700, 9, 0)]);
    let mut image = rock_ridge(&[shown]);
    let own = [nm(b"other"), px(0o040_511, 3, 0)];
    image.directory_with(41, ROOT, (&own, &[]), &[]);
    let fs = check(&image, &[GOOD, ("named", "")]);
    let found = attributes(&fs, b"named");
    assert_eq!((found.mode, found.link_count), (0o511, 3));
}

// Rule 6: the walk over system use entries.

#[test]
fn entries_behind_the_last_one_mean_nothing() {
    let image = rock_ridge(&[
        Record::file("A.;1", 40, 1).with(&[nm_more(b"before"), entry(b"ST", &[]), nm(b"after")]),
        Record::file("B.;1", 40, 2).with(&[entry(b"ZZ", b"unknown"), nm(b"behind")]),
        Record::file("C.;1", 40, 3).with(&[nm(b"short"), b"PX\x03\x01".to_vec()]),
        Record::file("D.;1", 40, 4).with(&[nm(b"over"), b"PX\xff\x01".to_vec()]),
    ]);
    let expected = [
        ("before", "g"),
        ("behind", "go"),
        GOOD,
        ("over", "good"),
        ("short", "goo"),
    ];
    check(&image, &expected);
}

#[test]
fn names_and_links_may_be_spread_over_many_areas() {
    let target: String = vec!["component"; 400].join("/");
    let mut image = Image::new();
    let mut at = 100u32;
    let mut chain = |parts: Vec<Vec<u8>>| {
        let mut next: Option<Vec<u8>> = None;
        for part in parts.into_iter().rev() {
            let area = [part, next.take().unwrap_or_default()].concat();
            image.put(at, &area);
            next = Some(ce(at, 0, area.len()));
            at += 1;
        }
        next.unwrap()
    };
    let last = target.split('/').count() - 1;
    let part = |(index, text): (usize, &str)| {
        let length = u8::try_from(text.len()).unwrap();
        let more = u8::from(index < last);
        entry(b"SL", &[&[more, 0, length][..], text.as_bytes()].concat())
    };
    let parts: Vec<Vec<u8>> = target.split('/').enumerate().map(part).collect();
    let parts: Vec<Vec<u8>> = parts.chunks(8).map(<[Vec<u8>]>::concat).collect();
    let link = chain(parts);
    let name = chain(vec![
        nm_more(&[b'n'; 100]),
        nm_more(&[b'm'; 100]),
        nm(&[b'o'; 55]),
    ]);
    let records = [
        Record::file("GOOD.TXT;1", 40, 4).with(&[nm(b"good.txt"), px(0o100_644, 1, 0)]),
        Record::file("L.;1", 0, 0).with(&[nm(b"link"), px(0o120_777, 1, 0), link]),
        Record::file("N.;1", 40, 1).with(&[name]),
    ];
    image.rock_ridge_root(&records);
    image.put(40, b"good");
    let name = ["n".repeat(100), "m".repeat(100), "o".repeat(55)].concat();
    check(&image, &[GOOD, ("link", &target), (&name, "g")]);
}

// Rules 8 and 9: names without Rock Ridge.

#[test]
fn case_is_ignored_in_plain_and_joliet_names_alone() {
    let finds = |fs: &IsoFileSystem, name: &[u8]| {
        let credentials = Credentials::root();
        fs.lookup(&call(&credentials), &fs.root(), name).is_ok()
    };
    let capitals = check(&plain(&[]), &[GOOD]);
    assert!(finds(&capitals, b"GOOD.TXT") && finds(&capitals, b"Good.txt"));
    let exact = check(&rock_ridge(&[]), &[GOOD]);
    assert!(finds(&exact, b"good.txt") && !finds(&exact, b"GOOD.TXT"));
    let mut image = Image::new().joliet();
    image.directory(ROOT, ROOT, &[]);
    let file = joliet_file("Good.txt;1", 40, 4);
    image.directory(JOLIET_ROOT, JOLIET_ROOT, &[file]);
    image.put(40, b"good");
    let joliet = check(&image, &[("Good.txt", "good")]);
    assert_eq!(joliet.tree_kind(), TreeKind::Joliet);
    assert!(finds(&joliet, b"GOOD.TXT") && !finds(&joliet, b"GOOD.TX"));
}

#[test]
fn names_of_joliet_may_be_as_long_as_a_record_allows() {
    let long = "\u{4e16}".repeat(110);
    let twin = format!("{}\u{754c}", "\u{4e16}".repeat(109));
    let mut odd = joliet_file("odd", 40, 2);
    odd.identifier.push(b'x');
    let mut lone = joliet_file("", 40, 3);
    lone.identifier = [&[0xd8, 0x3d][..], &utf16("lone")].concat();
    let records = [
        joliet_file(&long, 40, 1),
        joliet_file(&twin, 40, 2),
        odd,
        lone,
        joliet_file("a/b", 40, 4),
        joliet_file("end...;1", 40, 1),
    ];
    let mut image = Image::new().joliet();
    image.directory(ROOT, ROOT, &[]);
    image.directory(JOLIET_ROOT, JOLIET_ROOT, &records);
    image.put(40, b"good");
    // 85 characters of three bytes are the longest name that a client can take.
    let cut = "\u{4e16}".repeat(85);
    let numbered = format!("{}~2", "\u{4e16}".repeat(84));
    let expected = [
        ("a_b", "good"),
        ("end", "g"),
        ("odd", "go"),
        (&numbered, "go"),
        (&cut, "g"),
        ("\u{fffd}lone", "goo"),
    ];
    check(&image, &expected);
}

// Rule 12: files of several sections.

#[test]
fn sections_are_joined_only_when_they_are_of_one_file() {
    let image = plain(&[
        // Another file comes before the last section.
        Record::file("A.;1", 40, 1).flags(MORE),
        Record::file("A.;1", 40, 2).flags(ASSOCIATED),
        Record::file("A.;1", 40, 3),
        // The version belongs to the identifier.
        Record::file("B.;1", 40, 1).flags(MORE),
        Record::file("B.;2", 40, 2),
        // Two whole files of one name.
        Record::file("C.;1", 40, 1),
        Record::file("C.;1", 40, 2),
    ]);
    let expected = [("a", "ggoo"), ("b", "go"), ("c", "g"), ("c~2", "go"), GOOD];
    check(&image, &expected);
}

// Rule 13: where data are.

#[test]
fn interleaved_data_begin_behind_the_extended_attributes() {
    let mut record = Record::file("BOTH.BIN;1", 43, 3 * 2048);
    record.attribute_blocks = 1;
    record.interleave = (1, 2);
    let mut image = plain(&[record]);
    let mut whole = String::new();
    for (block, letter) in [(44, b'x'), (47, b'y'), (50, b'z')] {
        image.put(block, &[letter; SECTOR]);
        whole.push_str(&char::from(letter).to_string().repeat(SECTOR));
    }
    check(&image, &[("both.bin", &whole), GOOD]);
}

#[test]
fn a_directory_may_have_extended_attributes() {
    let mut directory = Record::directory("D", 41, 2048);
    directory.attribute_blocks = 1;
    let mut own = Record::directory("\0", 41, 2048);
    own.attribute_blocks = 1;
    let mut image = plain(&[directory]);
    let parent = Record::directory("\x01", ROOT, 2048);
    let file = Record::file("F.;1", 40, 2);
    image.put(42, &pack(&[own.bytes(), parent.bytes(), file.bytes()]));
    check(&image, &[("d", ""), ("d/f", "go"), GOOD]);
}

// Rule 15: records and sectors.

#[test]
fn a_record_across_the_end_of_a_sector_is_none() {
    let mut image = plain(&[]);
    let length = 2 * 2048;
    let mut bytes = Record::directory("\0", ROOT, length).bytes();
    bytes.extend(Record::directory("\x01", ROOT, length).bytes());
    bytes.extend(Record::file("GOOD.TXT;1", 40, 4).bytes());
    while bytes.len() < SECTOR - 40 {
        let name = format!("F{:04}.;1", bytes.len());
        bytes.extend(Record::file(&name, 40, 0).bytes());
    }
    bytes.extend(Record::file("ACROSS-THE-END-OF-IT.TXT;1", 40, 1).bytes());
    bytes.truncate(SECTOR);
    bytes.extend(Record::file("NEXT.TXT;1", 40, 2).bytes());
    image.put(ROOT, &bytes);
    let names: Vec<String> = walk(&open_bytes(image.bytes), WHOLE)
        .keys()
        .map(|path| display(path))
        .filter(|name| !name.starts_with('f'))
        .collect();
    assert_eq!(names, ["", "good.txt", "next.txt"]);
}

#[test]
fn b08_sectors_without_records_and_records_without_padding() {
    let mut image = Image::new();
    image.put(40, b"good");
    let mut odd = Record::file("EVEN12.TXT;1", 40, 4).bytes();
    odd.pop(); // without the pad byte behind a name of even length
    odd[0] -= 1;
    root_of(
        &mut image,
        4,
        &[odd, Record::file("GOOD.TXT;1", 40, 4).bytes()],
    );
    image.put(ROOT + 1, &[0; SECTOR]);
    let many = |start: u32| -> Vec<Vec<u8>> {
        let name = |index| format!("F{index:03}.TXT;1");
        (start..start + 40)
            .map(|index| Record::file(&name(index), 40, 1).bytes())
            .collect()
    };
    image.put(ROOT + 2, &pack(&many(0)));
    image.put(ROOT + 3, &pack(&many(40)));
    let found = walk(&open_bytes(image.bytes), WHOLE);
    assert_eq!(found.len(), 1 + 2 + 80);
    assert!(found.contains_key(&b"even12.txt"[..]));
    assert!(found.contains_key(&b"f079.txt"[..]));
}

// Rule 20: times.

/// A file with these entries of TF, recorded on 2020-05-06 07:08:09.
fn times(data: &[u8]) -> Attributes {
    let entries = [entry(b"TF", data), nm(b"stamped"), px(0o100_644, 1, 0)];
    let image = rock_ridge(&[Record::file("S.;1", 40, 1).with(&entries)]);
    attributes(&check(&image, &[GOOD, ("stamped", "g")]), b"stamped")
}

#[test]
fn each_time_is_what_was_recorded_for_it() {
    const RECORDED: i64 = 1_588_748_889;
    let stamp = |year: u8, zone: u8| [year, 1, 1, 0, 0, 0, zone];
    let year_2000 = 946_684_800;
    let seconds = |found: Attributes| {
        (
            found.modified.seconds,
            found.accessed.seconds,
            found.changed.seconds,
        )
    };
    let none = times(&[0]);
    assert_eq!(seconds(none), (RECORDED, RECORDED, RECORDED));
    // Of creation, change, access and attributes.
    let all = [
        &[0x0f][..],
        &stamp(98, 0),
        &stamp(100, 0),
        &stamp(101, 0),
        &stamp(102, 0),
    ];
    let found = seconds(times(&all.concat()));
    assert_eq!(
        found,
        (year_2000, year_2000 + 31_622_400, year_2000 + 63_158_400)
    );
    // Creation is taken for the change of attributes only without that.
    let created = seconds(times(
        &[&[0x03][..], &stamp(100, 0), &stamp(101, 0)].concat(),
    ));
    assert_eq!(created.2, year_2000);
    // A stamp that is cut short is none, and the entry behind it is read all the same.
    let short = seconds(times(
        &[&[0x06][..], &stamp(100, 0), &stamp(101, 0)[..6]].concat(),
    ));
    assert_eq!(short, (year_2000, year_2000, year_2000));
    let not_a_date = seconds(times(&[&[0x02][..], &[100, 13, 1, 0, 0, 0, 0]].concat()));
    assert_eq!(not_a_date.0, RECORDED);
    for (zone, quarters) in [(4, 4), (52, 52), (53, 0), (0xd0, -48), (0xcf, 0)] {
        let found = times(&[&[0x02][..], &stamp(100, zone)].concat());
        assert_eq!(
            found.modified.seconds,
            year_2000 - quarters * 900,
            "zone {zone}"
        );
    }
    let long = times(&[&[0x82][..], b"2100123123595950\0"].concat());
    assert_eq!(long.modified.seconds, 4_133_980_799);
    assert_eq!(long.modified.nanoseconds, 500_000_000);
    let last = times(&[&[0x02][..], &stamp(255, 0)].concat());
    assert_eq!(last.modified.seconds, 5_838_048_000, "2155");
}

// Rule 21: blocks.

#[test]
fn blocks_may_be_smaller_or_larger_than_a_sector() {
    for block_bytes in [512u16, 1024, 2048, 4096] {
        let block = |sector: u32| sector * 2048 / u32::from(block_bytes);
        let root = |identifier| Record::directory(identifier, block(ROOT), 2048).bytes();
        // Not at the start of a sector, if blocks are smaller.
        let odd = u32::from(block_bytes < 2048);
        let records = [
            root("\0"),
            root("\x01"),
            Record::file("A.TXT;1", block(40), 4).bytes(),
            Record::file("B.TXT;1", block(42) + odd, 4).bytes(),
        ];
        let mut primary = descriptor(1, block(ROOT), 2048, b"");
        primary[128..130].copy_from_slice(&block_bytes.to_le_bytes());
        primary[130..132].copy_from_slice(&block_bytes.to_be_bytes());
        let mut image = Image::new();
        image.put(16, &primary);
        image.put(ROOT, &pack(&records));
        image.put(40, b"good");
        image.put(43, b"");
        let second = 42 * SECTOR + odd as usize * usize::from(block_bytes);
        image.bytes[second..second + 4].copy_from_slice(b"more");
        check(&image, &[("a.txt", "good"), ("b.txt", "more")]);
    }
}

// Rule 22: modes.

#[test]
fn objects_without_attributes_can_be_read_by_all_users() {
    let mut image = plain(&[Record::directory("D", 41, 2048)]);
    image.directory(41, ROOT, &[]);
    let fs = check(&image, &[("d", ""), GOOD]);
    let (directory, file) = (attributes(&fs, b"d"), attributes(&fs, b"good.txt"));
    assert_eq!((directory.mode, file.mode), (0o555, 0o444));
    assert_eq!((directory.uid, file.gid, file.link_count), (0, 0, 1));
}

#[test]
fn the_directory_flag_counts_more_than_a_recorded_type() {
    let mut image = rock_ridge(&[
        Record::file("F.;1", 40, 2).with(&[nm(b"file"), px(0o040_755, 1, 0)]),
        Record::directory("D", 41, 2048).with(&[nm(b"directory")]),
        Record::file("NONE.;1", 40, 3).with(&[nm(b"none"), px(0, 0, 0)]),
        Record::file("ALL.;1", 40, 1).with(&[nm(b"all"), px(u32::MAX, u32::MAX, 0)]),
    ]);
    image.directory_with(41, ROOT, (&[px(0o100_640, 1, 0)], &[]), &[]);
    let expected = [
        ("all", "g"),
        ("directory", ""),
        ("file", "go"),
        GOOD,
        ("none", "goo"),
    ];
    let fs = check(&image, &expected);
    let kind = |name: &[u8]| (attributes(&fs, name).file_type, attributes(&fs, name).mode);
    assert_eq!(kind(b"file"), (FileType::Regular, 0o755));
    assert_eq!(kind(b"directory"), (FileType::Directory, 0o640));
    assert_eq!(kind(b"none"), (FileType::Regular, 0));
    assert_eq!(kind(b"all"), (FileType::Regular, 0o7777));
    assert_eq!(attributes(&fs, b"none").link_count, 1, "at least");
}

#[test]
fn b14b_posix_attributes_may_have_no_serial_number() {
    let short = entry(
        b"PX",
        &[both(0o100_600), both(1), both(5), both(6)].concat(),
    );
    let image = rock_ridge(&[Record::file("S.;1", 40, 1).with(&[nm(b"short"), short])]);
    let found = attributes(&check(&image, &[GOOD, ("short", "g")]), b"short");
    assert_eq!((found.mode, found.uid, found.gid), (0o600, 5, 6));
}

// Images of the corpus by what they hold.

#[test]
fn b04_versions_and_names_without() {
    let image = plain(&[
        Record::file("FOO.TXT;10", 40, 3),
        Record::file("FOO.TXT;2", 40, 2),
        Record::file("FOO.TXT;1", 40, 1),
        Record::file("BAR.TXT", 40, 2),
        Record::file("MAX.TXT;32767", 40, 1),
        Record::file("NODOT;1", 40, 1),
    ]);
    let expected = [
        ("bar.txt", "go"),
        ("foo.txt", "goo"),
        GOOD,
        ("max.txt", "g"),
        ("nodot", "g"),
    ];
    check(&image, &expected);
}

#[test]
fn b04_all_versions_when_they_are_asked_for() {
    let image = plain(&[
        Record::file("FOO.TXT;2", 40, 2),
        Record::file("FOO.TXT;10", 40, 3),
        Record::file("FOO.TXT;1", 40, 1),
        Record::file("FOO.TXT;1", 40, 4),
        Record::file("BAR.TXT;7", 40, 2),
    ]);
    let options = IsoOptions {
        all_versions: true,
        ..IsoOptions::default()
    };
    let expected = [
        ("bar.txt", "go"),
        ("foo.txt", "goo"),
        ("foo.txt;1", "g"),
        ("foo.txt;1~2", "good"),
        ("foo.txt;2", "go"),
        GOOD,
    ];
    check_with(&image, &options, &expected);
}

#[test]
fn b11_forms_of_links() {
    let link = |name: &[u8], parts: &[&[u8]]| {
        let entries: Vec<Vec<u8>> = parts.iter().map(|part| entry(b"SL", part)).collect();
        let identifier = format!("{};1", display(name).to_uppercase());
        Record::file(&identifier, 0, 0)
            .with(&[nm(name), px(0o120_777, 1, 0)])
            .with(&entries)
    };
    let image = rock_ridge(&[
        link(b"absolute", &[b"\0\x08\0\0\x03usr"]),
        link(b"current", &[b"\0\x02\0\0\x01a"]),
        link(b"double", &[b"\0\0\x03usr\x08\0\0\x03lib"]),
        link(b"joined", &[b"\x01\x01\x03abc", b"\0\0\x03def"]),
        link(b"parent", &[b"\0\x04\0\x04\0\0\x01x"]),
        link(b"roots", &[b"\0\x08\0\x08\0\0\x01b"]),
        link(b"split", &[b"\x01\0\x03abc", b"\0\0\x03def"]),
        link(b"unfinished", &[b"\x01\0\x03abc"]),
        // A volume and a host are of this machine, which an image cannot know.
        link(b"volume", &[b"\0\x10\0\0\x01a"]),
    ]);
    let expected = [
        ("absolute", "/usr"),
        ("current", "./a"),
        ("double", "usr//lib"),
        GOOD,
        ("joined", "abcdef"),
        ("parent", "../../x"),
        ("roots", "//b"),
        ("split", "abc/def"),
        ("unfinished", "!"),
        ("volume", "!"),
    ];
    check(&image, &expected);
}

#[test]
fn b16_equal_names_in_any_tree() {
    let image = rock_ridge(&[
        Record::file("A.;1", 40, 1).with(&[nm(b"same")]),
        Record::file("B.;1", 40, 2).with(&[nm(b"same")]),
        Record::file("C.;1", 40, 3).with(&[nm(b"same~2")]),
        Record::directory("D", 41, 2048).with(&[nm(b"same")]),
    ]);
    let mut image = image;
    image.directory(41, ROOT, &[]);
    let expected = [
        GOOD,
        ("same", "g"),
        ("same~2", "go"),
        ("same~2~2", "goo"),
        ("same~3", ""),
    ];
    check(&image, &expected);
}

#[test]
fn a05_twelve_levels_below_a_store() {
    let mut image = rock_ridge(&[
        Record::directory("A", 41, 2048).with(&[nm(b"a")]),
        Record::directory("RR_MOVED", 60, 2048).with(&[nm(b"rr_moved")]),
    ]);
    // Each level moves the next one away.
    let mut moved = Vec::new();
    for level in 0..12u32 {
        let child = 42 + level;
        let placeholder = Record::file("N", child, 0).with(&[nm(b"n"), cl(child)]);
        let second: Vec<Vec<u8>> = if level == 0 {
            vec![]
        } else {
            vec![pl(40 + level)]
        };
        let parent = if level == 0 { ROOT } else { 60 };
        image.directory_with(41 + level, parent, (&[], &second), &[placeholder]);
        moved.push(Record::directory(&format!("N{level:02}"), child, 2048).with(&[nm(b"n"), re()]));
    }
    let last = Record::file("F.;1", 40, 4).with(&[nm(b"f")]);
    image.directory_with(53, 60, (&[], &[pl(52)]), &[last]);
    image.directory(60, ROOT, &moved);
    let fs = open_bytes(image.bytes);
    let found = walk(&fs, WHOLE);
    support::check_parents(&fs, &found);
    let deepest = ["a", &"/n".repeat(12), "/f"].concat();
    assert_eq!(
        found[deepest.as_bytes()].content.as_deref(),
        Ok(&b"good"[..])
    );
    assert_eq!(found.len(), 1 + 1 + 13 + 1);
}

#[test]
fn names_that_are_no_text_are_listed_and_found() {
    let image = rock_ridge(&[
        Record::file("A.;1", 40, 1).with(&[nm(b"latin-\xe9")]),
        Record::file("B.;1", 40, 2).with(&[nm(b"\x01\x1b\x7f")]),
        Record::file("C.;1", 40, 3).with(&[nm("sl/\u{2215}".as_bytes())]),
    ]);
    let fs = open_bytes(image.bytes);
    let names: Vec<Vec<u8>> = list(&fs, &fs.root(), 3)
        .unwrap()
        .into_iter()
        .skip(2)
        .map(|(name, _, _)| name)
        .collect();
    let expected = [
        &b"latin-\xe9"[..],
        b"\x01\x1b\x7f",
        "sl_\u{2215}".as_bytes(),
        b"good.txt",
    ];
    assert_eq!(names, expected);
    assert_eq!(walk(&fs, WHOLE).len(), 5);
}

#[test]
fn a_link_needs_its_type_to_be_one() {
    // The type is missing, or another one: then it is a file.
    let image = rock_ridge(&[
        Record::file("A.;1", 40, 2).with(&[nm(b"a"), sl(b"\0\x01x")]),
        Record::file("B.;1", 40, 2).with(&[nm(b"b"), px(0o100_644, 1, 0), sl(b"\0\x01x")]),
        Record::file("C.;1", 40, 2).with(&[nm(b"c"), px(0o120_777, 1, 0)]),
    ]);
    check(&image, &[("a", "go"), ("b", "go"), ("c", "!"), GOOD]);
}

#[test]
fn b15b_b15c_descriptors_of_joliet() {
    let mut image = Image::new().joliet();
    image.directory(ROOT, ROOT, &[Record::file("GOOD.TXT;1", 40, 4)]);
    let file = joliet_file("Größe.txt", 40, 4);
    image.directory(JOLIET_ROOT, JOLIET_ROOT, &[file]);
    image.put(40, b"good");
    let descriptor = 17 * SECTOR;
    for (level, kind) in [
        (b"%/@", TreeKind::Joliet),
        (b"%/C", TreeKind::Joliet),
        (b"%/E", TreeKind::Joliet),
        (b"%/G", TreeKind::Plain),
    ] {
        // The flag says that a registered sequence may be missing, which means nothing here.
        for flag in [0, 1] {
            image.bytes[descriptor + 7] = flag;
            image.bytes[descriptor + 88..descriptor + 91].copy_from_slice(level);
            let fs = open_bytes(image.bytes.clone());
            assert_eq!(fs.tree_kind(), kind, "{}", display(level));
            let name: &[u8] = match kind {
                TreeKind::Joliet => "Größe.txt".as_bytes(),
                _ => b"good.txt",
            };
            assert!(walk(&fs, WHOLE).contains_key(name));
        }
    }
}

#[test]
fn b17_b19_b21_what_is_recorded_twice_or_not_at_all() {
    // Path tables, and numbers in the other byte order, that are nonsense; no terminator.
    let mut image = plain(&[Record::directory("D", 41, 2048)]);
    image.directory(41, ROOT, &[Record::file("F.;1", 40, 2)]);
    let descriptor = 16 * SECTOR;
    image.bytes[descriptor + 130..descriptor + 132].fill(0);
    image.bytes[descriptor + 132..descriptor + 156].fill(0xee);
    for at in [6, 14] {
        image.bytes[descriptor + 156 + at..][..4].fill(0);
    }
    image.bytes[17 * SECTOR..18 * SECTOR].fill(0);
    check(&image, &[("d", ""), ("d/f", "go"), GOOD]);
}
