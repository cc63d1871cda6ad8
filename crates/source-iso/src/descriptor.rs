//! Volume descriptors (ECMA-119 clause 8).
//!
//! Descriptors are 2048 bytes each from sector 16. A terminator should end them; images without one
//! exist, and images with thousands, so the scan ends at the first sector that is no descriptor, at
//! the end of the image, or after 64. The first primary descriptor counts, wherever it is.
//!
//! Similar formats that need another reader are recognised and refused by name: these rules would
//! read wrong data from them.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use super::names::announce_joliet;
use super::record::Record;
use super::volume::SECTOR_BYTES;

const FIRST_SECTOR: u64 = 16;
const DESCRIPTORS_MAX: u64 = 64;
const ROOT_RECORD: std::ops::Range<usize> = 156..190;
const ESCAPE_SEQUENCES: std::ops::Range<usize> = 88..120;

/// The content of a device that is no image for this reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotIso {
    /// A related format; the text names it, with its article.
    Unsupported(&'static str),
    /// Another content; the text says what is missing.
    Unknown(&'static str),
}

/// The content of an image.
type Content = Result<Descriptors, NotIso>;

/// Fills the target from a position on.
type ReadAt<'a, E> = &'a dyn Fn(u64, &mut [u8]) -> Result<(), E>;

/// An image whose bytes are read in one way or another, which fails with `E`.
pub(super) struct Readable<'a, E> {
    pub length_bytes: u64,
    pub read: ReadAt<'a, E>,
}

impl<E> Readable<'_, E> {
    /// Reads unless the image is too short.
    fn read_if_there(&self, position: u64, target: &mut [u8]) -> Result<bool, E> {
        if position + target.len() as u64 > self.length_bytes {
            return Ok(false);
        }
        (self.read)(position, target).map(|()| true)
    }
}

fn unsupported<E>(what: &'static str) -> Result<Content, E> {
    Ok(Err(NotIso::Unsupported(what)))
}

/// The facts of the volume descriptors.
pub(super) struct Descriptors {
    pub(super) block_bytes: u32,
    /// Root record of the primary descriptor's tree, when both are sound.
    pub(super) primary_root: Option<Record>,
    pub(super) joliet_root: Option<Record>,
    /// Hash of the primary descriptor and the image's length.
    pub(super) identity: u64,
    /// The image also has a UDF file system.
    pub(super) has_udf: bool,
}

/// Examines an image; errors are those of reading it.
pub(super) fn examine<E>(image: &Readable<'_, E>) -> Result<Content, E> {
    let mut head = [0u8; 16];
    if image.read_if_there(0, &mut head)? {
        if matches!(&head[..4], b"CISO" | b"ZISO") {
            return unsupported("a compressed (CSO or ZSO) image");
        }
        if head[..12] == [0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0] {
            return unsupported("an image of raw 2352-byte sectors");
        }
    }
    let mut scan = Scan::default();
    for index in 0..DESCRIPTORS_MAX {
        let mut sector = [0u8; SECTOR_BYTES];
        let position = (FIRST_SECTOR + index) * SECTOR_BYTES as u64;
        if !image.read_if_there(position, &mut sector)? {
            scan.image_ended = index == 0;
            break;
        }
        if !scan.take(&sector, image.length_bytes) {
            break;
        }
    }
    // Extended descriptors of UDF may follow the terminator.
    scan.finish(image)
}

#[derive(Default)]
struct Scan {
    primary: Option<Descriptors>,
    joliet: Option<Descriptors>,
    has_udf: bool,
    is_high_sierra: bool,
    image_ended: bool,
    terminated: bool,
}

impl Scan {
    /// Takes one sector; false ends the scan.
    fn take(&mut self, sector: &[u8; SECTOR_BYTES], length_bytes: u64) -> bool {
        match &sector[1..6] {
            b"CD001" if !self.terminated => {}
            b"BEA01" | b"TEA01" | b"BOOT2" => return true,
            b"NSR02" | b"NSR03" => {
                self.has_udf = true;
                return true;
            }
            _ => {
                self.is_high_sierra |= &sector[9..14] == b"CDROM";
                return false;
            }
        }
        match sector[0] {
            1 if self.primary.is_none() => self.primary = Some(descriptor(sector, length_bytes)),
            // Version 2 is an enhanced descriptor (ISO 9660:1999), without escape sequences.
            2 if self.joliet.is_none()
                && sector[6] != 2
                && announce_joliet(&sector[ESCAPE_SEQUENCES]) =>
            {
                let mut found = descriptor(sector, length_bytes);
                found.joliet_root = found.primary_root.take();
                self.joliet = Some(found);
            }
            255 => self.terminated = true,
            _ => {}
        }
        true
    }

    fn finish<E>(self, image: &Readable<'_, E>) -> Result<Content, E> {
        let joliet = self.joliet.as_ref();
        let joliet_root = joliet.and_then(|found| found.joliet_root.clone());
        if let Some(mut found) = self.primary.or(self.joliet) {
            found.joliet_root = joliet_root;
            found.has_udf = self.has_udf;
            return Ok(Ok(found));
        }
        if self.has_udf {
            return unsupported("a UDF image without an ISO 9660 tree");
        }
        if self.is_high_sierra {
            return unsupported("a High Sierra image");
        }
        if let Some(layout) = other_sector_layout(image)? {
            return unsupported(layout);
        }
        Ok(Err(NotIso::Unknown(if self.image_ended {
            "it ends before sector 16, where volume descriptors are"
        } else {
            "no volume descriptor"
        })))
    }
}

fn descriptor(sector: &[u8; SECTOR_BYTES], length_bytes: u64) -> Descriptors {
    let little = u16::from_le_bytes([sector[128], sector[129]]);
    let big = u16::from_be_bytes([sector[130], sector[131]]);
    let sound = |size: u16| size >= 512 && size.is_power_of_two();
    let block_bytes = if !sound(little) && sound(big) {
        big
    } else {
        little
    };
    let mut hasher = SipHasher24::new();
    hasher.write(sector);
    hasher.write_u64(length_bytes.to_le());
    Descriptors {
        block_bytes: u32::from(block_bytes),
        primary_root: Record::root(&sector[ROOT_RECORD]),
        joliet_root: None,
        identity: hasher.finish(),
        has_udf: false,
    }
}

/// Looks for descriptors at the positions of other sector sizes or of a pregap.
fn other_sector_layout<E>(image: &Readable<'_, E>) -> Result<Option<&'static str>, E> {
    for (sector_bytes, header_bytes, first, what) in [
        (2336, 8, 16, "an image of raw 2336-byte sectors"),
        (2352, 16, 16, "an image of raw 2352-byte sectors"),
        (2352, 24, 16, "an image of raw 2352-byte sectors"),
        (2448, 16, 16, "an image of raw 2448-byte sectors"),
        (2448, 24, 16, "an image of raw 2448-byte sectors"),
        (2048, 0, 166, "an image with a pregap of 150 sectors"),
    ] {
        let mut identifier = [0u8; 6];
        let position = sector_bytes * first + header_bytes;
        if image.read_if_there(position, &mut identifier)? && &identifier[1..] == b"CD001" {
            return Ok(Some(what));
        }
    }
    Ok(None)
}

/// Whether a UDF anchor (ECMA-167 3/10.2) is at one of its places.
pub(super) fn has_udf_anchor<E>(image: &Readable<'_, E>) -> Result<bool, E> {
    const ANCHOR_TAG: [u8; 2] = [2, 0];
    let sectors = image.length_bytes / SECTOR_BYTES as u64;
    for sector in [
        256,
        sectors.saturating_sub(257),
        sectors.saturating_sub(1),
        sectors,
    ] {
        let mut tag = [0u8; 16];
        let there = image.read_if_there(sector * SECTOR_BYTES as u64, &mut tag)?;
        let location = u32::from_le_bytes([tag[12], tag[13], tag[14], tag[15]]);
        if there && tag[..2] == ANCHOR_TAG && u64::from(location) == sector {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn of_bytes(bytes: &[u8]) -> Content {
        let read = |position: u64, target: &mut [u8]| {
            let start = usize::try_from(position).unwrap();
            target.copy_from_slice(&bytes[start..start + target.len()]);
            Ok::<_, Infallible>(())
        };
        let image = Readable {
            length_bytes: bytes.len() as u64,
            read: &read,
        };
        let Ok(content) = examine(&image);
        content
    }

    fn refusal(bytes: Vec<u8>) -> &'static str {
        match of_bytes(&bytes) {
            Ok(_) => "iso",
            Err(NotIso::Unsupported(what) | NotIso::Unknown(what)) => what,
        }
    }

    fn with(position: usize, text: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 200 * 2048];
        bytes[position..position + text.len()].copy_from_slice(text);
        bytes
    }

    #[test]
    fn relatives_are_refused_by_name() {
        assert!(refusal(Vec::new()).contains("ends before"));
        assert!(refusal(vec![0; 32768]).contains("ends before"));
        assert_eq!(refusal(vec![0; 65536]), "no volume descriptor");
        assert!(refusal(with(0, b"CISO")).contains("CSO"));
        assert!(refusal(with(1, &[255; 10])).contains("2352"));
        assert!(refusal(with(16 * 2352 + 24, b"\x01CD001")).contains("2352"));
        assert!(refusal(with(16 * 2336 + 8, b"\x01CD001")).contains("2336"));
        assert!(refusal(with(166 * 2048, b"\x01CD001")).contains("pregap"));
        assert!(refusal(with(16 * 2048 + 8, b"\x01CDROM")).contains("High Sierra"));
        assert!(refusal(with(16 * 2048, b"\x00NSR02")).contains("UDF"));
    }

    #[test]
    fn the_first_primary_descriptor_counts_wherever_it_stands() {
        let mut bytes = with(16 * 2048, b"\0CD001\x01");
        bytes[17 * 2048..17 * 2048 + 7].copy_from_slice(b"\x03CD001\x01");
        bytes[18 * 2048..18 * 2048 + 7].copy_from_slice(b"\x01CD001\x01");
        bytes[18 * 2048 + 128..18 * 2048 + 132].copy_from_slice(&[0, 8, 8, 0]);
        bytes.truncate(19 * 2048);
        let content = of_bytes(&bytes);
        let Ok(found) = content else {
            panic!("not recognised");
        };
        assert_eq!(found.block_bytes, 2048);
        assert!(found.primary_root.is_none(), "zeros are no root record");
    }
}
