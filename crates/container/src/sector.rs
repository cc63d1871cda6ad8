//! Where the 2048 bytes of user data lie in a sector as it is stored.
//!
//! ```text
//!  2352  sync 12 | address 3, mode 1 | data 2048 | checks 288            mode 1
//!  2352  sync 12 | address 3, mode 2 | subheader 8 | data 2048 | checks  mode 2, form 1
//!  2352  sync 12 | address 3, mode 2 | subheader 8 | 2324 | check        mode 2, form 2
//!  2336                                subheader 8 | data 2048 | checks  mode 2
//!  2448  as 2352, and 96 bytes of subchannels behind it
//! ```
//!
//! (ECMA-130 clause 14; CD-ROM XA for the subheader: its third byte has bit 5 set in form 2.)

/// What every sector of 2352 bytes begins with.
const SYNC: [u8; 12] = [0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0];
const MODE: usize = 15;
const SUBHEADER_BYTES: usize = 8;
const SUBMODE: usize = 2;
const FORM_2: u8 = 1 << 5;
const DATA_BYTES: usize = 2048;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    Data,
    Subheader,
    Sync,
}

/// How the sectors of a track are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    head: Head,
    stride_bytes: usize,
}

impl Layout {
    /// User data alone.
    pub(crate) const COOKED: Self = Self {
        head: Head::Data,
        stride_bytes: DATA_BYTES,
    };
    /// Without sync pattern and address.
    pub(crate) const HEADLESS: Self = Self {
        head: Head::Subheader,
        stride_bytes: 2336,
    };
    /// Whole sectors.
    pub(crate) const RAW: Self = Self {
        head: Head::Sync,
        stride_bytes: 2352,
    };
    /// Whole sectors with their subchannels.
    pub(crate) const WITH_SUBCHANNELS: Self = Self {
        head: Head::Sync,
        stride_bytes: 2448,
    };

    /// That of sectors of so many bytes.
    pub(crate) fn of_sector_bytes(bytes: u64) -> Option<Self> {
        let all = [
            Self::COOKED,
            Self::HEADLESS,
            Self::RAW,
            Self::WITH_SUBCHANNELS,
        ];
        all.into_iter()
            .find(|layout| layout.stride_bytes as u64 == bytes)
    }

    /// The same with another stride.
    pub(crate) fn with_stride(self, stride_bytes: usize) -> Self {
        Self {
            stride_bytes,
            ..self
        }
    }

    /// Bytes from a sector to the next.
    pub(crate) fn stride_bytes(self) -> u64 {
        self.stride_bytes as u64
    }

    /// Bytes up to the end of the user data, at most.
    pub(crate) fn needed_bytes(self) -> usize {
        let before = match self.head {
            Head::Data => 0,
            Head::Subheader => SUBHEADER_BYTES,
            Head::Sync => MODE + 1 + SUBHEADER_BYTES,
        };
        before + DATA_BYTES
    }

    /// The user data of a sector; `None` for audio, video or damage.
    pub(crate) fn data(self, sector: &[u8]) -> Option<&[u8]> {
        let behind_subheader = |rest: &'_ [u8]| -> Option<usize> {
            (rest.get(SUBMODE)? & FORM_2 == 0).then_some(SUBHEADER_BYTES)
        };
        let start = match self.head {
            Head::Data => 0,
            Head::Subheader => behind_subheader(sector)?,
            Head::Sync => {
                let (head, rest) = sector.split_at_checked(MODE + 1)?;
                let is_whole = head.starts_with(&SYNC);
                match head.get(MODE)? {
                    1 if is_whole => MODE + 1,
                    2 if is_whole => MODE + 1 + behind_subheader(rest)?,
                    _ => return None,
                }
            }
        };
        sector.get(start..start + DATA_BYTES)
    }

    /// Whether a sector is of data. Where sectors have no sync pattern, all are.
    pub(crate) fn is_of_data(self, sector: &[u8]) -> bool {
        self.head != Head::Sync || sector.starts_with(&SYNC)
    }

    pub(crate) fn describe(self, sector: &[u8]) -> String {
        let stride = self.stride_bytes;
        match self.head {
            Head::Data => format!("sectors of {stride} bytes"),
            Head::Subheader => format!("raw sectors of {stride} bytes, mode 2 form 1"),
            Head::Sync if sector.get(MODE) == Some(&1) => {
                format!("raw sectors of {stride} bytes, mode 1")
            }
            Head::Sync => format!("raw sectors of {stride} bytes, mode 2 form 1"),
        }
    }
}

/// Makes whole sectors of user data; for tests.
#[cfg(test)]
pub(crate) fn make_raw(layout: Layout, mode: u8, data: &[u8]) -> Vec<u8> {
    let mut image = Vec::new();
    for (number, data) in data.chunks(DATA_BYTES).enumerate() {
        let mut sector = Vec::new();
        if layout.head == Head::Sync {
            sector.extend(SYNC);
            sector.extend([0, 2, u8::try_from(number % 75).unwrap(), mode]);
        }
        if layout.head == Head::Subheader || layout.head == Head::Sync && mode == 2 {
            sector.extend([0, 0, 8, 0, 0, 0, 8, 0]);
        }
        sector.extend(data);
        // Checks and subchannels: anything but zeros.
        sector.resize(layout.stride_bytes, 0xee);
        image.extend(sector);
    }
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sector_says_where_its_data_is() {
        let data: Vec<u8> = (0..DATA_BYTES).map(|at| (at % 251) as u8).collect();
        for (layout, mode) in [
            (Layout::COOKED, 1),
            (Layout::HEADLESS, 2),
            (Layout::RAW, 1),
            (Layout::RAW, 2),
            (Layout::WITH_SUBCHANNELS, 1),
            (Layout::WITH_SUBCHANNELS, 2),
        ] {
            let sector = make_raw(layout, mode, &data);
            assert_eq!(sector.len(), layout.stride_bytes);
            assert_eq!(layout.data(&sector), Some(&data[..]), "{layout:?}");
            let needed = layout.needed_bytes();
            assert_eq!(layout.data(&sector[..needed]), Some(&data[..]));
            for short in [0, 1, 15, 16, 20, DATA_BYTES - 1] {
                assert_eq!(layout.data(&sector[..short]), None);
            }
        }
    }

    #[test]
    fn what_is_no_data_is_none() {
        let mut sector = make_raw(Layout::RAW, 2, &[7; DATA_BYTES]);
        sector[18] |= FORM_2;
        assert_eq!(Layout::RAW.data(&sector), None);
        assert_eq!(Layout::HEADLESS.data(&sector[16..]), None);
        let mut audio = make_raw(Layout::RAW, 1, &[7; DATA_BYTES]);
        audio[3] = 0;
        assert_eq!(Layout::RAW.data(&audio), None);
        assert_eq!(Layout::RAW.data(&[0; 2352]), None, "zeros are no sector");
    }
}
