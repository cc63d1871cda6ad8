//! Images written by hand, byte by byte, so that any of them can be wrong.

use super::SECTOR;
use flate2::{Compress, Compression, FlushCompress};

pub const ROOT: u32 = 20;
pub const JOLIET_ROOT: u32 = 30;
pub const DIRECTORY: u8 = 0x02;
pub const ASSOCIATED: u8 = 0x04;
pub const MORE: u8 = 0x80;

pub fn both(value: u32) -> Vec<u8> {
    [value.to_le_bytes(), value.to_be_bytes()].concat()
}

/// A directory record.
#[derive(Clone)]
pub struct Record {
    pub identifier: Vec<u8>,
    pub extent: u32,
    pub length: u32,
    pub flags: u8,
    pub attribute_blocks: u8,
    pub interleave: (u8, u8),
    pub system_use: Vec<u8>,
}

impl Record {
    pub fn file(identifier: &str, extent: u32, length: u32) -> Self {
        Self {
            identifier: identifier.as_bytes().to_vec(),
            extent,
            length,
            flags: 0,
            attribute_blocks: 0,
            interleave: (0, 0),
            system_use: Vec::new(),
        }
    }

    pub fn directory(identifier: &str, extent: u32, length: u32) -> Self {
        Self::file(identifier, extent, length).flags(DIRECTORY)
    }

    pub fn flags(mut self, flags: u8) -> Self {
        self.flags = flags;
        self
    }

    /// Adds system use entries.
    pub fn with(mut self, entries: &[Vec<u8>]) -> Self {
        self.system_use.extend(entries.concat());
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0, self.attribute_blocks];
        bytes.extend(both(self.extent));
        bytes.extend(both(self.length));
        bytes.extend([120, 5, 6, 7, 8, 9, 0]);
        bytes.extend([self.flags, self.interleave.0, self.interleave.1]);
        bytes.extend([1, 0, 0, 1]);
        bytes.push(u8::try_from(self.identifier.len()).unwrap());
        bytes.extend(&self.identifier);
        if self.identifier.len().is_multiple_of(2) {
            bytes.push(0);
        }
        bytes.extend(&self.system_use);
        bytes[0] = u8::try_from(bytes.len()).unwrap();
        bytes
    }
}

/// Packs records so that none crosses a sector.
pub fn pack(records: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    for record in records {
        if bytes.len() % SECTOR + record.len() > SECTOR {
            bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
        }
        bytes.extend(record);
    }
    bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
    bytes
}

/// Sectors from the start, with a primary descriptor and a terminator.
#[derive(Clone)]
pub struct Image {
    pub bytes: Vec<u8>,
}

impl Image {
    /// An image whose root directory is to be written at [`ROOT`].
    pub fn new() -> Self {
        let mut image = Self { bytes: Vec::new() };
        image.put(16, &descriptor(1, ROOT, 2048, b""));
        image.put(17, b"\xffCD001\x01");
        image.put(19, &[0; SECTOR]);
        image
    }

    /// Adds a Joliet descriptor whose root directory is to be written at [`JOLIET_ROOT`].
    pub fn joliet(mut self) -> Self {
        self.put(17, &descriptor(2, JOLIET_ROOT, 2048, b"%/E"));
        self.put(18, b"\xffCD001\x01");
        self
    }

    /// Writes at a sector, growing the image to whole sectors.
    pub fn put(&mut self, sector: u32, bytes: &[u8]) {
        let start = sector as usize * SECTOR;
        let end = (start + bytes.len()).next_multiple_of(SECTOR);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Writes a directory with its own and its parent's record.
    pub fn directory(&mut self, sector: u32, parent: u32, records: &[Record]) -> &mut Self {
        let none: &[Vec<u8>] = &[];
        self.directory_with(sector, parent, (none, none), records)
    }

    /// The same with system use entries in the first two records.
    pub fn directory_with(
        &mut self,
        sector: u32,
        parent: u32,
        (own, second): (&[Vec<u8>], &[Vec<u8>]),
        records: &[Record],
    ) -> &mut Self {
        let head = |extent, length, identifier: &str, entries| {
            Record::directory(identifier, extent, length)
                .with(entries)
                .bytes()
        };
        let list = |length| {
            let mut list = vec![
                head(sector, length, "\0", own),
                head(parent, 2048, "\x01", second),
            ];
            list.extend(records.iter().map(Record::bytes));
            pack(&list)
        };
        let length = u32::try_from(list(0).len()).unwrap();
        self.put(sector, &list(length));
        self
    }

    /// A root directory with Rock Ridge.
    pub fn rock_ridge_root(&mut self, records: &[Record]) -> &mut Self {
        let own = [sp(0), px(0o040_755, 2, 0)];
        self.directory_with(ROOT, ROOT, (&own, &[]), records)
    }
}

/// A volume descriptor.
pub fn descriptor(kind: u8, root: u32, root_length: u32, escape: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR];
    bytes[..7].copy_from_slice(&[kind, b'C', b'D', b'0', b'0', b'1', 1]);
    bytes[88..88 + escape.len()].copy_from_slice(escape);
    bytes[128..132].copy_from_slice(&[0, 8, 8, 0]);
    let root = Record::directory("\0", root, root_length).bytes();
    bytes[156..156 + root.len()].copy_from_slice(&root);
    bytes
}

/// A system use entry.
pub fn entry(signature: &[u8; 2], data: &[u8]) -> Vec<u8> {
    let length = u8::try_from(data.len() + 4).unwrap();
    [&signature[..], &[length, 1], data].concat()
}

pub fn sp(skip: u8) -> Vec<u8> {
    entry(b"SP", &[0xbe, 0xef, skip])
}

pub fn er(identifier: &str) -> Vec<u8> {
    let length = u8::try_from(identifier.len()).unwrap();
    entry(b"ER", &[&[length, 0, 0, 1], identifier.as_bytes()].concat())
}

pub fn px(mode: u32, links: u32, serial: u32) -> Vec<u8> {
    entry(
        b"PX",
        &[both(mode), both(links), both(7), both(8), both(serial)].concat(),
    )
}

pub fn nm(name: &[u8]) -> Vec<u8> {
    entry(b"NM", &[&[0], name].concat())
}

/// A part of a name that goes on in the next one.
pub fn nm_more(name: &[u8]) -> Vec<u8> {
    entry(b"NM", &[&[1], name].concat())
}

/// A link; `components` are raw component records.
pub fn sl(components: &[u8]) -> Vec<u8> {
    entry(b"SL", &[&[0], components].concat())
}

pub fn ce(block: u32, offset: u32, length: usize) -> Vec<u8> {
    let length = u32::try_from(length).unwrap();
    entry(b"CE", &[both(block), both(offset), both(length)].concat())
}

pub fn cl(block: u32) -> Vec<u8> {
    entry(b"CL", &both(block))
}

pub fn pl(block: u32) -> Vec<u8> {
    entry(b"PL", &both(block))
}

pub fn re() -> Vec<u8> {
    entry(b"RE", &[])
}

/// A file that is compressed so: algorithm, words of its header, power of two of its blocks, and
/// its length.
pub fn zisofs(algorithm: [u8; 2], words: u8, shift: u8, size: u64) -> Vec<u8> {
    let head = [&algorithm[..], &[words, shift]].concat();
    entry(b"ZF", &[head, size.to_le_bytes().to_vec()].concat())
}

/// Names and values of AAIP, one after the other.
pub fn al(components: &[&[u8]]) -> Vec<u8> {
    let component = |text: &&[u8]| [&[0, u8::try_from(text.len()).unwrap()], *text].concat();
    let all = components.iter().map(component).collect::<Vec<_>>();
    entry(b"AL", &[&[0], &all.concat()[..]].concat())
}

pub fn sf() -> Vec<u8> {
    entry(b"SF", &[0; 17])
}

/// UTF-16, most significant byte first.
pub fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

/// A record of the Joliet tree.
pub fn joliet_file(name: &str, extent: u32, length: u32) -> Record {
    Record {
        identifier: utf16(name),
        ..Record::file("", extent, length)
    }
}

/// Turns the image into one of the draft of 1986: other places in the descriptor, and records whose
/// times have no zone.
pub fn to_high_sierra(image: &mut Image, directories: &[u32]) {
    let start = 16 * 2048;
    let ecma = image.bytes[start..start + 2048].to_vec();
    let mut sector = vec![0; 2048];
    sector[8..15].copy_from_slice(b"\x01CDROM\x01");
    sector[48..80].copy_from_slice(&ecma[40..72]);
    sector[88..96].copy_from_slice(&ecma[80..88]);
    sector[136..140].copy_from_slice(&ecma[128..132]);
    sector[180..214].copy_from_slice(&ecma[156..190]);
    sector[790..806].copy_from_slice(b"1987010203040500");
    sector[180 + 24] = 2;
    image.put(16, &sector);
    image.put(17, b"\0\0\0\0\0\0\0\0\xffCDROM\x01");
    for directory in directories {
        let start = *directory as usize * 2048;
        let mut at = start;
        while image.bytes[at] > 0 {
            image.bytes[at + 24] = image.bytes[at + 25];
            image.bytes[at + 25] = 0;
            at += usize::from(image.bytes[at]);
        }
    }
}

/// A block that zlib compressed.
pub fn pressed(data: &[u8]) -> Vec<u8> {
    let mut block = Vec::with_capacity(data.len() + 1000);
    Compress::new(Compression::default(), true)
        .compress_vec(data, &mut block, FlushCompress::Finish)
        .unwrap();
    block
}

/// Data of version 1 with these blocks, for a file of `size` bytes.
pub fn zisofs_data(size: u32, shift: u8, blocks: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0x37, 0xe4, 0x53, 0x96, 0xc9, 0xdb, 0xd6, 0x07];
    bytes.extend(size.to_le_bytes());
    bytes.extend([4, shift, 0, 0]);
    let mut at = 16 + 4 * (blocks.len() + 1);
    for block in blocks {
        bytes.extend(u32::try_from(at).unwrap().to_le_bytes());
        at += block.len();
    }
    bytes.extend(u32::try_from(at).unwrap().to_le_bytes());
    [bytes, blocks.concat()].concat()
}
