//! Images of raw sectors, or with a pregap, and nothing else.
//!
//! Sector 16 of a data track holds the first descriptor, which each layout puts elsewhere. Some
//! writers store the pregap of 150 sectors first. Sectors of 2352 and 2448 bytes have a sync
//! pattern, which music has not: an image may begin with music and end with data.

use std::sync::Arc;

use pagewell_device::Device;

use crate::sector::Layout;
use crate::track::Track;
use crate::volume::{self, FIRST_SECTOR, MARK_BYTES};
use crate::{Inside, Result, bytes};

/// Sectors before a track, if they are stored.
const PREGAP_SECTORS: u64 = 150;

const LAYOUTS: [Layout; 4] = [
    Layout::RAW,
    Layout::WITH_SUBCHANNELS,
    Layout::HEADLESS,
    Layout::COOKED,
];

/// Finds the layout of an image without a descriptor at its place in sectors of 2048 bytes.
pub(crate) fn open(device: &Arc<dyn Device>) -> Result<Option<Inside>> {
    for pregap in [0, PREGAP_SECTORS] {
        for layout in LAYOUTS {
            if let Some(found) = track(device, (0, pregap), layout)? {
                return Ok(Some(found));
            }
        }
    }
    for layout in [Layout::RAW, Layout::WITH_SUBCHANNELS] {
        let Some(first) = behind_music(&**device, layout)? else {
            continue;
        };
        for pregap in [0, PREGAP_SECTORS] {
            if let Some(found) = track(device, (first, pregap), layout)? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

fn track(
    device: &Arc<dyn Device>,
    (music, pregap): (u64, u64),
    layout: Layout,
) -> Result<Option<Inside>> {
    let start = (music + pregap) * layout.stride_bytes();
    if !has_volume(&**device, start, layout)? {
        return Ok(None);
    }
    let track = Track {
        start,
        length_bytes: data_bytes(&**device, start, layout)?,
        layout,
    };
    let (inside, mut words) = track.open(device)?;
    for (sectors, what) in [(music, "music"), (pregap, "a pregap")] {
        if sectors > 0 {
            words += &format!(", behind {what} of {sectors} sectors");
        }
    }
    Ok(Some(Inside::new(inside, words)))
}

fn is_data(device: &dyn Device, start: u64, layout: Layout, sector: u64) -> Result<bool> {
    let position = start + sector * layout.stride_bytes();
    let bytes = bytes::read(device, position, MARK_BYTES)?;
    Ok(bytes.is_some_and(|bytes| layout.is_of_data(&bytes)))
}

/// The first sector of data of an image that begins with music and ends with data.
fn behind_music(device: &dyn Device, layout: Layout) -> Result<Option<u64>> {
    let is_data = |sector: u64| is_data(device, 0, layout, sector);
    let last = device.length_bytes() / layout.stride_bytes();
    let Some(last) = last.checked_sub(1) else {
        return Ok(None);
    };
    if is_data(0)? || !is_data(last)? {
        return Ok(None);
    }
    edge(last, 0, is_data).map(|(data, _)| Some(data))
}

/// Bytes up to the end of the data track, as readers look at the last sectors of a volume. Music
/// behind it is believed if some sectors from there on are no data.
fn data_bytes(device: &dyn Device, start: u64, layout: Layout) -> Result<u64> {
    const BELIEVED_SECTORS: u64 = 16;
    let stride = layout.stride_bytes();
    let count = device.length_bytes().saturating_sub(start) / stride;
    let is_data = |sector: u64| is_data(device, start, layout, sector);
    let last = count.saturating_sub(1);
    if last <= FIRST_SECTOR || is_data(last)? {
        return Ok(u64::MAX);
    }
    let (_, other) = edge(FIRST_SECTOR, last, is_data)?;
    for sector in (other..count).take(BELIEVED_SECTORS as usize) {
        if is_data(sector)? {
            return Ok(u64::MAX);
        }
    }
    Ok(other * stride)
}

/// Two neighbours of which one is of data and one is not, between two such sectors, by halves.
fn edge(
    mut data: u64,
    mut other: u64,
    is_data: impl Fn(u64) -> Result<bool>,
) -> Result<(u64, u64)> {
    while data.abs_diff(other) > 1 {
        let middle = data.midpoint(other);
        match is_data(middle)? {
            true => data = middle,
            false => other = middle,
        }
    }
    Ok((data, other))
}

fn has_volume(device: &dyn Device, start: u64, layout: Layout) -> Result<bool> {
    let position = start + FIRST_SECTOR * layout.stride_bytes();
    let sector = bytes::read(device, position, layout.needed_bytes())?;
    let data = sector.as_deref().and_then(|sector| layout.data(sector));
    Ok(data.is_some_and(volume::begins))
}

#[cfg(test)]
mod tests {
    use crate::sector::{Layout, make_raw};
    use crate::{Depth, Unwrapped, Wanted, unwrap};
    use pagewell_device::RamDevice;
    use pagewell_device::testing::{pattern, read};
    use std::sync::Arc;

    /// Sectors of which the one at 16 begins a volume.
    pub(crate) fn volume() -> Vec<u8> {
        let mut data = pattern(200 * 2048);
        data[32768..32774].copy_from_slice(b"\x01CD001");
        data
    }

    fn unwrapped(image: &[u8]) -> Unwrapped {
        let device = Arc::new(RamDevice::holding("x.bin", image));
        unwrap(device, Wanted::default(), Depth::Open(&|_| {})).unwrap()
    }

    #[test]
    fn each_layout_is_found() {
        let data = volume();
        for (layout, mode, words) in [
            (
                Layout::HEADLESS,
                2,
                "raw sectors of 2336 bytes, mode 2 form 1",
            ),
            (Layout::RAW, 1, "raw sectors of 2352 bytes, mode 1"),
            (Layout::RAW, 2, "raw sectors of 2352 bytes, mode 2 form 1"),
            (
                Layout::WITH_SUBCHANNELS,
                1,
                "raw sectors of 2448 bytes, mode 1",
            ),
            (
                Layout::WITH_SUBCHANNELS,
                2,
                "raw sectors of 2448 bytes, mode 2 form 1",
            ),
        ] {
            let image = make_raw(layout, mode, &data);
            let pregap = make_raw(layout, mode, &[0; 150 * 2048]);
            let found = unwrapped(&image);
            assert_eq!(found.layers.len(), 1, "{layout:?}");
            assert_eq!(found.layers[0].to_string(), words);
            assert!(read(&*found.device, 0, data.len()).1[..] == data);
            let found = unwrapped(&[pregap, image].concat());
            let words = format!("{words}, behind a pregap of 150 sectors");
            assert_eq!(found.layers[0].to_string(), words);
            assert!(read(&*found.device, 0, data.len()).1[..] == data);
        }
        let found = unwrapped(&[vec![0; 150 * 2048], data.clone()].concat());
        let words = "sectors of 2048 bytes, behind a pregap of 150 sectors";
        assert_eq!(found.layers[0].to_string(), words);
        assert!(read(&*found.device, 0, data.len()).1[..] == data);
    }

    #[test]
    fn what_holds_a_volume_or_nothing_is_left_alone() {
        let found = unwrapped(&volume());
        assert!(found.layers.is_empty());
        for nothing in [vec![], vec![0; 600_000], pattern(600_000)] {
            let found = unwrapped(&nothing);
            assert!(found.layers.is_empty());
            assert_eq!(found.device.length_bytes(), nothing.len() as u64);
        }
    }

    #[test]
    fn music_behind_the_data_is_left_out() {
        let data = volume();
        let image = make_raw(Layout::RAW, 1, &data);
        let music = pattern(2352 * 90);
        let found = unwrapped(&[image.clone(), music.clone()].concat());
        assert_eq!(found.device.length_bytes(), data.len() as u64);
        // A damaged sector is no end of the data.
        for damaged in [199, 107, 17] {
            let mut image = image.clone();
            image[damaged * 2352] = 7;
            let found = unwrapped(&image);
            let last = 199 - usize::from(damaged == 199);
            let there = found.device.length_bytes();
            assert!(there >= (last as u64 + 1) * 2048, "{damaged}: {there}");
        }
    }

    #[test]
    fn data_behind_music_is_found() {
        let data = volume();
        for (layout, stride) in [(Layout::RAW, 2352), (Layout::WITH_SUBCHANNELS, 2448)] {
            for pregap in [0, 150] {
                let pregap_sectors = make_raw(layout, 2, &vec![0; pregap * 2048]);
                let image = [
                    pattern(stride * 777),
                    pregap_sectors,
                    make_raw(layout, 2, &data),
                ];
                let found = unwrapped(&image.concat());
                let words = found.layers[0].to_string();
                assert!(words.contains("behind music of 777 sectors"), "{words}");
                assert_eq!(words.contains("a pregap of 150 sectors"), pregap > 0);
                assert!(read(&*found.device, 0, data.len()).1[..] == data);
                assert_eq!(found.device.length_bytes(), data.len() as u64);
            }
        }
    }

    #[test]
    fn images_that_are_cut_keep_what_is_there() {
        let data = volume();
        let image = make_raw(Layout::WITH_SUBCHANNELS, 1, &data);
        for bytes in (0..image.len()).step_by(1000) {
            let found = unwrapped(&image[..bytes]);
            let sectors = bytes / 2448 + usize::from(bytes % 2448 >= 2072);
            if sectors > 16 {
                let length = sectors * 2048;
                assert_eq!(found.device.length_bytes(), length as u64);
                assert!(read(&*found.device, 0, length).1[..] == data[..length]);
            }
        }
    }
}
