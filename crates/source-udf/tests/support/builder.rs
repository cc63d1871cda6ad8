//! Images written by hand, block by block, so that any of them can be wrong.
//!
//! ```text
//! block 100 main sequence | 120 reserve | 140, 150 sparing tables | 160 spare packets
//!       256 anchor | 257 partition ... | anchor        (a VAT disc ends with the table's entry)
//! ```

/// First block of the partition.
pub const START: u32 = 257;
const MAIN: u32 = 100;
const RESERVE: u32 = 120;
const TABLES: [u32; 2] = [140, 150];
const SPARE: u32 = 160;
const PACKET: u32 = 8;
/// Number of the partition in the volume.
const NUMBER: u16 = 5;
/// Blocks of the metadata file: two extents, each so long, and their mirror in one.
const METADATA: [u32; 2] = [10, 60];
const METADATA_BLOCKS: u32 = 40;
const METADATA_MIRROR: u32 = 110;
/// First block for what else is in the partition.
const FREE: u32 = 200;

pub const DIRECTORY: u8 = 2;
pub const DELETED: u8 = 4;
pub const PARENT: u8 = 8;

/// How the partition with entries is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    /// With the table of UDF 1.50, or of 2.x.
    Virtual(bool),
    Sparable,
    Metadata,
}

pub const KINDS: [Kind; 5] = [
    Kind::Plain,
    Kind::Virtual(true),
    Kind::Virtual(false),
    Kind::Sparable,
    Kind::Metadata,
];

/// A block of a partition: its index and the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At(pub u16, pub u32);

impl At {
    pub fn bytes(self) -> Vec<u8> {
        [&self.1.to_le_bytes()[..], &self.0.to_le_bytes()].concat()
    }
}

fn crc(bytes: &[u8]) -> u16 {
    let mut crc = 0u16;
    for byte in bytes {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            let carry = crc & 0x8000 != 0;
            crc <<= 1;
            if carry {
                crc ^= 0x1021;
            }
        }
    }
    crc
}

/// A descriptor with its tag.
pub fn descriptor(kind: u16, location: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    bytes[..2].copy_from_slice(&kind.to_le_bytes());
    bytes[2] = 2;
    bytes[8..10].copy_from_slice(&crc(body).to_le_bytes());
    bytes[10..12].copy_from_slice(&u16::try_from(body.len()).unwrap().to_le_bytes());
    bytes[12..16].copy_from_slice(&location.to_le_bytes());
    bytes[4] = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    [bytes, body.to_vec()].concat()
}

/// Computes the tag of a changed descriptor anew.
pub fn seal(bytes: &mut [u8]) {
    let length = usize::from(u16::from_le_bytes([bytes[10], bytes[11]]));
    let sum = crc(&bytes[16..16 + length]);
    bytes[8..10].copy_from_slice(&sum.to_le_bytes());
    bytes[4] = 0;
    bytes[4] = bytes[..16]
        .iter()
        .fold(0u8, |sum, byte| sum.wrapping_add(*byte));
}

/// A structure of `length` bytes with fields at offsets.
fn body(length: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; length];
    for (at, field) in fields {
        // Offsets count from the start of the descriptor, as in the standard.
        bytes[at - 16..at - 16 + field.len()].copy_from_slice(field);
    }
    bytes
}

pub fn short(kind: u32, length: u32, block: u32) -> Vec<u8> {
    [(kind << 30 | length).to_le_bytes(), block.to_le_bytes()].concat()
}

pub fn long(kind: u32, length: u32, at: At) -> Vec<u8> {
    [
        &(kind << 30 | length).to_le_bytes()[..],
        &at.bytes(),
        &[0; 6],
    ]
    .concat()
}

pub fn extended(kind: u32, length: u32, at: At) -> Vec<u8> {
    let length = (kind << 30 | length).to_le_bytes();
    [&length[..], &length, &length, &at.bytes(), &[0; 2]].concat()
}

/// Compressed Unicode: of 8 bits where it can be.
pub fn unicode(text: &str) -> Vec<u8> {
    if text.chars().all(|character| character < '\u{100}') {
        let bytes = text.chars().map(|character| character as u8);
        return std::iter::once(8).chain(bytes).collect();
    }
    let units = text.encode_utf16().flat_map(u16::to_be_bytes);
    std::iter::once(16).chain(units).collect()
}

/// A file identifier: a name in compressed Unicode.
pub fn identifier(name: &[u8], characteristics: u8, at: At) -> Vec<u8> {
    identifier_with(name, characteristics, at, &[])
}

/// The same with bytes of the writer's before the name.
pub fn identifier_with(name: &[u8], characteristics: u8, at: At, used: &[u8]) -> Vec<u8> {
    let mut body = vec![1, 0, characteristics, u8::try_from(name.len()).unwrap()];
    body.extend(long(0, 2048, at));
    body.extend(u16::try_from(used.len()).unwrap().to_le_bytes());
    body.extend(used);
    body.extend(name);
    body.resize((body.len() + 16).next_multiple_of(4) - 16, 0);
    descriptor(257, at.1, &body)
}

pub fn named(name: &str, at: At) -> Vec<u8> {
    identifier(&unicode(name), 0, at)
}

pub fn folder(name: &str, at: At) -> Vec<u8> {
    identifier(&unicode(name), DIRECTORY, at)
}

pub fn parent(at: At) -> Vec<u8> {
    identifier(b"", DIRECTORY | PARENT, at)
}

/// A device specification in an area of extended attributes.
pub fn device(major: u32, minor: u32) -> Vec<u8> {
    let header = descriptor(262, 0, &[24, 0, 0, 0, 255, 255, 255, 255]);
    let mut attribute = [12u32, 1, 24, 0, major, minor]
        .map(u32::to_le_bytes)
        .concat();
    attribute[4..8].copy_from_slice(&[1, 0, 0, 0]);
    [header, attribute].concat()
}

/// A file entry.
#[derive(Clone, Debug)]
pub struct Entry {
    pub file_type: u8,
    /// Form of allocation descriptors, and bits of the mode.
    pub flags: u16,
    pub uid: u32,
    pub gid: u32,
    pub permissions: u32,
    pub links: u16,
    pub size: u64,
    pub descriptors: Vec<u8>,
    pub attributes: Vec<u8>,
    pub is_extended: bool,
    pub has_streams: bool,
    pub strategy: u16,
    pub entries_max: u16,
}

impl Entry {
    /// A regular file whose data is in the entry.
    pub fn embedded(content: &[u8]) -> Self {
        Self {
            file_type: 5,
            flags: 3,
            uid: 1000,
            gid: 100,
            // rw-r-----
            permissions: 0b00110_00100_00000,
            links: 1,
            size: content.len() as u64,
            descriptors: content.to_vec(),
            attributes: Vec::new(),
            is_extended: true,
            has_streams: false,
            strategy: 4,
            entries_max: 1,
        }
    }

    /// The same with its data in extents: 0 short, 1 long, 2 extended descriptors.
    pub fn extents(form: u16, size: u64, descriptors: &[Vec<u8>]) -> Self {
        Self {
            flags: form,
            size,
            descriptors: descriptors.concat(),
            ..Self::embedded(b"")
        }
    }

    pub fn of_type(self, file_type: u8) -> Self {
        Self { file_type, ..self }
    }

    pub fn bytes(&self, location: u32) -> Vec<u8> {
        let (fixed, times, lengths) = if self.is_extended {
            (216, [80, 92, 116], 208)
        } else {
            (176, [72, 84, 96], 168)
        };
        let mut bytes = body(fixed, &[]);
        bytes.truncate(fixed - 16);
        let mut put = |at: usize, field: &[u8]| {
            bytes[at - 16..at - 16 + field.len()].copy_from_slice(field);
        };
        put(20, &self.strategy.to_le_bytes());
        put(24, &self.entries_max.to_le_bytes());
        put(27, &[self.file_type]);
        put(34, &self.flags.to_le_bytes());
        put(36, &self.uid.to_le_bytes());
        put(40, &self.gid.to_le_bytes());
        put(44, &self.permissions.to_le_bytes());
        put(48, &self.links.to_le_bytes());
        put(56, &self.size.to_le_bytes());
        for (number, at) in (1u8..).zip(times) {
            put(at, &time(number));
        }
        if self.has_streams && self.is_extended {
            put(152, &[0, 8]);
        }
        let length = |part: &[u8]| u32::try_from(part.len()).unwrap().to_le_bytes();
        put(lengths, &length(&self.attributes));
        put(lengths + 4, &length(&self.descriptors));
        let mut attributes = self.attributes.clone();
        if let Some(place) = attributes.get_mut(12..16) {
            place.copy_from_slice(&location.to_le_bytes());
            seal(&mut attributes);
        }
        bytes.extend(&attributes);
        bytes.extend(&self.descriptors);
        let kind = if self.is_extended { 266 } else { 261 };
        descriptor(kind, location, &bytes)
    }
}

/// 2001-02-03 04:05:06 and so many microseconds, an hour east of Greenwich.
pub fn time(microseconds: u8) -> Vec<u8> {
    vec![60, 0x10, 0xd1, 7, 2, 3, 4, 5, 6, 0, 0, microseconds]
}

/// [`time`] without its fraction.
pub const SECONDS: i64 = 981_169_506;

/// An image in the making.
pub struct Udf {
    pub kind: Kind,
    pub block: usize,
    pub bytes: Vec<u8>,
    next: u32,
    next_icb: u32,
    table: Vec<u32>,
    spared: Vec<(u32, u32)>,
    file_set: At,
}

impl Udf {
    pub fn new(kind: Kind, block: usize) -> Self {
        let mut udf = Self {
            kind,
            block,
            bytes: vec![0; (START + FREE) as usize * block],
            next: FREE,
            next_icb: 0,
            table: Vec::new(),
            spared: Vec::new(),
            file_set: At(0, 0),
        };
        udf.file_set = udf.icb();
        udf
    }

    pub fn file_set(&self) -> At {
        self.file_set
    }

    /// Writes at a block of the volume, growing the image to whole blocks.
    pub fn put(&mut self, block: u32, bytes: &[u8]) {
        let start = block as usize * self.block;
        let end = (start + bytes.len()).next_multiple_of(self.block);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Free blocks of the first partition.
    pub fn free(&mut self, blocks: u32) -> At {
        let first = self.next;
        self.next += blocks;
        self.put(START + self.next - 1, &[]);
        let end = (START + self.next) as usize * self.block;
        self.bytes.resize(self.bytes.len().max(end), 0);
        At(0, first)
    }

    /// Data in blocks of its own.
    pub fn data(&mut self, bytes: &[u8]) -> At {
        let blocks = u32::try_from(bytes.len().div_ceil(self.block)).unwrap();
        let at = self.free(blocks);
        self.write(at, bytes);
        at
    }

    /// A block for an entry, in the partition for entries.
    pub fn icb(&mut self) -> At {
        let index = self.next_icb;
        self.next_icb += 1;
        match self.kind {
            Kind::Plain => self.free(1),
            Kind::Sparable => {
                // Each in a packet of its own, and every second one moved.
                let at = At(0, self.next.next_multiple_of(PACKET));
                self.free(at.1 + PACKET - self.next);
                if index % 2 == 1 {
                    let to = SPARE + PACKET * u32::try_from(self.spared.len()).unwrap();
                    self.spared.push((at.1, to));
                }
                At(0, at.1 + index % PACKET)
            }
            Kind::Metadata => At(1, index * 2),
            Kind::Virtual(_) => {
                let At(_, block) = self.free(2);
                self.table.push(block);
                At(1, index)
            }
        }
    }

    /// Where a block is in the image; in a metadata partition also in the mirror.
    pub fn positions(&self, at: At) -> Vec<usize> {
        let blocks = match (self.kind, at) {
            (Kind::Metadata, At(1, block)) => {
                let (index, inside) = (block / METADATA_BLOCKS, block % METADATA_BLOCKS);
                let first = START + METADATA[index as usize] + inside;
                vec![first, START + METADATA_MIRROR + block]
            }
            (Kind::Virtual(_), At(1, index)) => vec![START + self.table[index as usize]],
            (Kind::Sparable, At(0, block)) => {
                let packet = block / PACKET * PACKET;
                let moved = self.spared.iter().find(|(original, _)| *original == packet);
                vec![moved.map_or(START + block, |(_, to)| to + block % PACKET)]
            }
            (_, At(_, block)) => vec![START + block],
        };
        let positions = blocks.into_iter().map(|block| block as usize * self.block);
        positions.collect()
    }

    /// Writes at a block of a partition, and into the mirror.
    pub fn write(&mut self, at: At, bytes: &[u8]) {
        for (index, part) in (0u32..).zip(bytes.chunks(self.block)) {
            for position in self.positions(At(at.0, at.1 + index)) {
                self.put(u32::try_from(position / self.block).unwrap(), part);
            }
        }
    }

    pub fn entry(&mut self, at: At, entry: &Entry) {
        self.write(at, &entry.bytes(at.1));
    }

    /// A new object.
    pub fn add(&mut self, entry: &Entry) -> At {
        let at = self.icb();
        self.entry(at, entry);
        at
    }

    /// A new file with its data in the entry.
    pub fn file(&mut self, content: &[u8]) -> At {
        self.add(&Entry::embedded(content))
    }

    /// A directory whose identifiers are in its entry, the parent's first.
    pub fn directory(&mut self, at: At, above: At, identifiers: &[Vec<u8>]) {
        let content = [vec![parent(above)], identifiers.to_vec()]
            .concat()
            .concat();
        let entry = Entry {
            // rwxr-x---
            permissions: 0b00111_00101_00000,
            ..Entry::embedded(&content).of_type(4)
        };
        self.entry(at, &entry);
    }

    /// Writes what is around the tree, and returns the image.
    pub fn finish(&mut self, root: At) -> Vec<u8> {
        self.recognition();
        let file_set = self.file_set;
        self.write(file_set, &file_set_descriptor(file_set, root));
        self.maps_and_tables();
        if matches!(self.kind, Kind::Virtual(_)) {
            self.virtual_table();
        }
        for first in [MAIN, RESERVE] {
            self.sequence(first, file_set);
        }
        let anchor = |location| {
            let length = 16 * u32::try_from(self.block).unwrap();
            let fields = [length, MAIN, length, RESERVE].map(u32::to_le_bytes);
            descriptor(2, location, &body(512, &[(16, &fields.concat())])[..496])
        };
        let last = u32::try_from(self.bytes.len() / self.block).unwrap();
        let (first, second) = (anchor(256), anchor(last));
        self.put(256, &first);
        if !matches!(self.kind, Kind::Virtual(_)) {
            self.put(last, &second);
        }
        self.bytes.clone()
    }

    fn recognition(&mut self) {
        let step = self.block.max(2048);
        for (index, name) in [b"BEA01", b"NSR03", b"TEA01"].iter().enumerate() {
            let at = 32_768 + index * step;
            self.bytes[at + 1..at + 6].copy_from_slice(*name);
            self.bytes[at + 6] = 1;
        }
    }

    fn maps_and_tables(&mut self) {
        match self.kind {
            Kind::Plain | Kind::Virtual(_) => {}
            Kind::Sparable => {
                let table = |number: u32, location, entries: &[(u32, u32)]| {
                    let count = u16::try_from(entries.len()).unwrap().to_le_bytes();
                    let mut bytes = body(
                        56,
                        &[
                            (17, b"*UDF Sparing Table"),
                            (48, &count),
                            (52, &number.to_le_bytes()),
                        ],
                    );
                    bytes.truncate(40);
                    for (original, to) in entries {
                        bytes.extend(original.to_le_bytes());
                        bytes.extend(to.to_le_bytes());
                    }
                    descriptor(0, location, &bytes)
                };
                let mut entries = self.spared.clone();
                entries.push((u32::MAX, SPARE + 88));
                let (old, new) = (table(1, TABLES[0], &[]), table(2, TABLES[1], &entries));
                self.put(TABLES[0], &old);
                self.put(TABLES[1], &new);
            }
            Kind::Metadata => {
                let length = METADATA_BLOCKS * u32::try_from(self.block).unwrap();
                let size = 2 * u64::from(length);
                let main = METADATA.map(|block| short(0, length, block));
                let main = Entry::extents(0, size, &main).of_type(250);
                let mirror = [short(0, 2 * length, METADATA_MIRROR)];
                let mirror = Entry::extents(0, size, &mirror).of_type(251);
                self.entry(At(0, 0), &main);
                self.entry(At(0, 1), &mirror);
            }
        }
    }

    /// The table and, in the last block, its entry.
    fn virtual_table(&mut self) {
        let entries: Vec<u8> = self.table.iter().flat_map(|b| b.to_le_bytes()).collect();
        let (content, file_type) = if self.kind == Kind::Virtual(true) {
            let mut trailer = vec![0; 36];
            trailer[1..23].copy_from_slice(b"*UDF Virtual Alloc Tbl");
            ([entries, trailer].concat(), 0)
        } else {
            let mut header = vec![0; 152];
            header[0] = 152;
            ([header, entries].concat(), 248)
        };
        let at = self.data(&content);
        let length = u32::try_from(content.len()).unwrap();
        let entry = Entry::extents(0, content.len() as u64, &[short(0, length, at.1)]);
        let place = self.free(1);
        self.entry(place, &entry.of_type(file_type));
    }

    fn sequence(&mut self, first: u32, file_set: At) {
        let mut primary = body(512, &[(25, b"\x08primary"), (376, &time(0))]);
        primary.truncate(496);
        let blocks = u32::try_from(self.bytes.len() / self.block).unwrap() - START;
        let mut partition = body(
            512,
            &[
                (22, &NUMBER.to_le_bytes()),
                (188, &START.to_le_bytes()),
                (192, &blocks.to_le_bytes()),
            ],
        );
        partition.truncate(496);
        let logical = self.logical_volume(file_set);
        for (index, (kind, body)) in (0u32..).zip([
            (1, primary),
            (5, partition),
            (6, logical),
            (8, vec![0; 496]),
        ]) {
            self.put(first + index, &descriptor(kind, first + index, &body));
        }
    }

    fn logical_volume(&self, file_set: At) -> Vec<u8> {
        let number = NUMBER.to_le_bytes();
        let mut physical = vec![1, 6, 1, 0];
        physical.extend(number);
        let other = |name: &[u8], fields: &[u8]| {
            let mut map = vec![0; 64];
            map[..2].copy_from_slice(&[2, 64]);
            map[5..5 + name.len()].copy_from_slice(name);
            map[38..40].copy_from_slice(&number);
            map[40..40 + fields.len()].copy_from_slice(fields);
            map
        };
        let maps = match self.kind {
            Kind::Plain => vec![physical],
            Kind::Virtual(is_early) => {
                let mut map = other(b"*UDF Virtual Partition", b"");
                // The revision in the identifier's suffix.
                map[28..30].copy_from_slice(if is_early { &[0x50, 1] } else { &[0, 2] });
                vec![physical, map]
            }
            Kind::Sparable => {
                let fields = [PACKET, 0, 512, TABLES[0], TABLES[1]].map(u32::to_le_bytes);
                let mut fields = fields.concat();
                fields.drain(4..8);
                fields[2] = 2;
                vec![other(b"*UDF Sparable Partition", &fields)]
            }
            Kind::Metadata => {
                let fields = [0u32, 1, u32::MAX].map(u32::to_le_bytes).concat();
                vec![physical, other(b"*UDF Metadata Partition", &fields)]
            }
        };
        let count = u32::try_from(maps.len()).unwrap();
        let maps = maps.concat();
        let block = u32::try_from(self.block).unwrap();
        let mut label = unicode("label");
        label.resize(127, 0);
        label.push(6);
        let mut bytes = body(
            440,
            &[
                (84, &label),
                (212, &block.to_le_bytes()),
                (217, b"*OSTA UDF Compliant"),
                (240, &[0x50, 2]),
                (248, &long(0, block, file_set)),
                (264, &u32::try_from(maps.len()).unwrap().to_le_bytes()),
                (268, &count.to_le_bytes()),
            ],
        );
        bytes.truncate(424);
        bytes.extend(maps);
        bytes
    }
}

fn file_set_descriptor(at: At, root: At) -> Vec<u8> {
    let mut bytes = body(512, &[(16, &time(0)), (400, &long(0, 2048, root))]);
    bytes.truncate(496);
    descriptor(256, at.1, &bytes)
}
