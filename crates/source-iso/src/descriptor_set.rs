//! The descriptors of one session.
//!
//! A set begins 16 sectors behind its session. Some images lack the terminator, others have
//! thousands of descriptors: the scan ends at the first other sector, at the image's end, or after
//! 64. The first descriptor of each kind counts; only those of UDF may follow the terminator.
//!
//! ```text
//! 0            16        17       18         19
//! | system area | primary | Joliet | terminator | UDF ...
//! ```

use pagewell_source_bytes::Readable;

use super::descriptor::{Descriptor, Kind, kind_of};
use super::volume::SECTOR_BYTES;

const SECTOR: u64 = SECTOR_BYTES as u64;
const FIRST_SECTOR: u64 = 16;
const DESCRIPTORS_MAX: u64 = 64;
/// El Torito's system identifier in a boot record, and where that has the catalogue's sector.
const EL_TORITO: &[u8] = b"EL TORITO SPECIFICATION";
const CATALOGUE_SECTOR: usize = 71;

/// Why a device is no image for this reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotIso(pub &'static str);

#[derive(Default)]
pub(super) struct DescriptorSet {
    pub primary: Option<Descriptor>,
    pub joliet: Option<Descriptor>,
    pub enhanced: Option<Descriptor>,
    /// Sector of the boot catalogue.
    pub boot_catalogue: Option<u32>,
    pub is_terminated: bool,
    pub end_position: u64,
}

impl DescriptorSet {
    pub(super) fn read<E>(image: &Readable<'_, E>, start: u64) -> Result<Self, E> {
        let mut set = Self::default();
        for index in 0..DESCRIPTORS_MAX {
            let mut sector = [0u8; SECTOR_BYTES];
            let Some(position) = start
                .checked_add(FIRST_SECTOR + index)
                .and_then(|number| number.checked_mul(SECTOR))
            else {
                break;
            };
            if !image.read_if_there(position, &mut sector)? {
                break;
            }
            let Some(kind) = kind_of(&sector) else {
                break;
            };
            match kind.0 {
                Kind::Udf | Kind::Extended => {}
                _ if set.is_terminated => break,
                Kind::Terminator => set.is_terminated = true,
                _ => set.take(&sector, kind, (position, image.length_bytes)),
            }
            set.end_position = position + SECTOR;
        }
        Ok(set)
    }

    fn take(&mut self, sector: &[u8; SECTOR_BYTES], kind: (Kind, bool), place: (u64, u64)) {
        let slot = match kind {
            (Kind::Primary, _) => &mut self.primary,
            (Kind::Joliet, _) => &mut self.joliet,
            (Kind::Enhanced, _) => &mut self.enhanced,
            (Kind::Boot, false) => {
                self.boot_catalogue = self.boot_catalogue.or_else(|| boot_catalogue(sector));
                return;
            }
            _ => return,
        };
        slot.get_or_insert_with(|| Descriptor::read(sector, kind, place));
    }

    /// The descriptor that stands for the volume; `None` without any tree.
    pub(super) fn main(&self) -> Option<&Descriptor> {
        let others = self.joliet.as_ref().or(self.enhanced.as_ref());
        self.primary.as_ref().or(others)
    }
}

fn boot_catalogue(sector: &[u8; SECTOR_BYTES]) -> Option<u32> {
    sector[7..].starts_with(EL_TORITO).then_some(())?;
    let number = sector.get(CATALOGUE_SECTOR..)?.first_chunk()?;
    Some(u32::from_le_bytes(*number))
}

pub(super) fn examine<E>(image: &Readable<'_, E>) -> Result<Result<DescriptorSet, NotIso>, E> {
    let set = DescriptorSet::read(image, 0)?;
    if set.main().is_some() {
        return Ok(Ok(set));
    }
    let is_short = image.length_bytes < (FIRST_SECTOR + 1) * SECTOR;
    Ok(Err(NotIso(if is_short {
        "it ends before sector 16, where volume descriptors are"
    } else {
        "no volume descriptor"
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn of_bytes(bytes: &[u8]) -> Result<DescriptorSet, NotIso> {
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
            Err(NotIso(what)) => what,
        }
    }

    fn with(position: usize, text: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 200 * 2048];
        bytes[position..position + text.len()].copy_from_slice(text);
        bytes
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(refusal(Vec::new()).contains("ends before"));
        assert!(refusal(vec![0; 32768]).contains("ends before"));
        assert_eq!(refusal(vec![0; 65536]), "no volume descriptor");
        assert_eq!(
            refusal(with(16 * 2048, b"\x00NSR02")),
            "no volume descriptor"
        );
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
        let primary = found.main().unwrap();
        assert_eq!(primary.block_bytes, 2048);
        assert!(primary.root.is_none(), "zeros are no root record");
    }

    #[test]
    fn the_first_of_each_kind_before_the_terminator_counts() {
        let mut bytes = vec![0; 40 * 2048];
        let mut put = |sector: usize, text: &[u8]| {
            bytes[sector * 2048..sector * 2048 + text.len()].copy_from_slice(text);
        };
        let boot = [&b"\0CD001\x01EL TORITO SPECIFICATION"[..], &[0; 41], &[99]].concat();
        put(16, &boot);
        for (sector, label) in [(17, b'A'), (18, b'B'), (23, b'C')] {
            let head = [&b"\x01CD001\x01"[..], &[0; 33], &[label]].concat();
            put(sector, &head);
        }
        put(19, b"\x02CD001\x02");
        put(20, b"\xffCD001\x01");
        put(21, b"\0BEA01\x01");
        put(22, b"\0NSR02\x01");
        let set = of_bytes(&bytes).unwrap_or_default();
        assert_eq!(set.boot_catalogue, Some(99));
        assert_eq!(set.primary.unwrap().label, "A");
        assert!(set.enhanced.is_some() && set.joliet.is_none());
    }
}
