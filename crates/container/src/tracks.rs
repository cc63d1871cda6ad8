//! The tracks of a disc: which one is read, and what of the others belongs to it.
//!
//! **Problem.** Several tracks of a table may be of data: sessions, each with all files of those
//! before it; the first and the last of a GD-ROM's outer area; a file system in each track.
//!
//! **Rule.** The first track of data with a volume is read (of a GD-ROM the first of the outer
//! area), or the one that is wanted. A volume says where its track is (see `session`); other tracks
//! are where the table says, or behind the track before:
//!
//! ```text
//!  track 1 data     sector 0        its volume: sector 0
//!  track 2 music    behind 1
//!  track 3 data     behind 2?       its volume: sector 45000, so there
//!  track 4 data     behind 3
//! ```
//!
//! All tracks of data are shown at their places ([`Joined`]), unless the volume that is read counts
//! from its track's first sector.
//!
//! **Known weakness.** A track without a volume is shown too early behind a gap that its table
//! lacks.

use std::sync::Arc;

use pagewell_device::Device;

use crate::joined::Joined;
use crate::session::{self, Place};
use crate::track::Listed;
use crate::volume::{self, SECTOR_BYTES};
use crate::{Error, Inside, Result, Wanted};

/// Tracks of a disc, and the highest number of one.
pub(crate) const TRACKS_MAX: usize = 99;
/// Where the outer area of a GD-ROM begins.
pub(crate) const HIGH_DENSITY_SECTOR: u64 = 45_000;
/// Four layers of a Blu-ray disc have half as many.
const SECTOR_MAX: u64 = 1 << 27;

/// Sectors between a session and the pregap of the next one: a lead-out of 1:30 minutes behind the
/// first session and of 0:30 behind others, and a minute of lead-in.
pub(crate) const fn sectors_between_sessions(is_first: bool) -> u64 {
    match is_first {
        true => 11_250,
        false => 6_750,
    }
}

/// Opens a file of a table, by its index.
pub(crate) type OpenFile<'a> = dyn Fn(usize) -> Result<Arc<dyn Device>> + 'a;

pub(crate) struct Table<'a> {
    /// Such as "cue sheet".
    pub title: String,
    /// In the order of the disc.
    pub tracks: &'a [Listed],
    pub open_file: &'a OpenFile<'a>,
}

struct Opened {
    number: usize,
    device: Arc<dyn Device>,
    /// Its sectors.
    words: String,
    /// First sector on the disc.
    first: Option<u64>,
    has_volume: bool,
    /// By its volume.
    place: Place,
}

/// Opens the track that is wanted or read by itself; `None` where no track has a volume.
pub(crate) fn open(table: &Table<'_>, wanted: &mut Wanted) -> Result<Option<Inside>> {
    let named = wanted.track.take();
    let data = || table.tracks.iter().filter(|it| it.is_data);
    if let Some(number) = named.filter(|number| data().all(|it| it.number != *number)) {
        return Err(table.without(number));
    }
    let (opened, troubles) = match data().count() {
        1 => (
            data().map(|it| table.alone(it)).collect::<Result<_>>()?,
            Vec::new(),
        ),
        _ => table.place_all()?,
    };
    let is_fit = |it: &&Opened| it.has_volume || wanted.partition.is_some();
    let mut fit = opened.iter().filter(is_fit);
    let is_outer = |it: &&Opened| it.first >= Some(HIGH_DENSITY_SECTOR);
    let is_gd = table.has_outer_area();
    let main = match named {
        Some(number) => opened.iter().find(|it| it.number == number),
        None => fit
            .clone()
            .find(is_outer)
            .filter(|_| is_gd)
            .or_else(|| fit.next()),
    };
    let Some(main) = main else {
        return match named {
            Some(number) => Err(table.unopened(number, troubles)),
            None => Ok(None),
        };
    };
    if !is_fit(&main) {
        return Err(table.empty(main.number, &opened));
    }
    let others: Vec<&Opened> = opened
        .iter()
        .filter(|it| it.number != main.number)
        .collect();
    Ok(Some(main.inside(
        table,
        &others,
        (named.is_some(), troubles),
    )))
}

impl Table<'_> {
    fn error(&self, what: String) -> Error {
        Error::Damaged {
            device: self.title.clone(),
            what,
        }
    }

    fn without(&self, number: usize) -> Error {
        let data = self.tracks.iter().filter(|it| it.is_data);
        let data: Vec<String> = data.map(|it| it.number.to_string()).collect();
        let is_there = self.tracks.iter().any(|it| it.number == number);
        let what = match is_there {
            true => format!("whose track {number} is none of data"),
            false => format!("without a track {number}"),
        };
        let data = data.join(", ");
        self.error(format!("a disc {what} (tracks of data: {data})"))
    }

    fn empty(&self, number: usize, opened: &[Opened]) -> Error {
        let with = opened.iter().filter(|it| it.has_volume);
        let with: Vec<String> = with.map(|it| it.number.to_string()).collect();
        let with = match with.as_slice() {
            [] => "no track has one".to_owned(),
            with => format!("tracks with one: {}", with.join(", ")),
        };
        self.error(format!(
            "a disc whose track {number} has no file system ({with})"
        ))
    }

    fn unopened(&self, number: usize, troubles: Vec<String>) -> Error {
        let start = format!("has its track {number} in ");
        let why = troubles.into_iter().find(|it| it.starts_with(&start));
        let why = why.unwrap_or_else(|| format!("{start}no file"));
        self.error(format!("a disc that {why}"))
    }

    fn has_outer_area(&self) -> bool {
        let is_edge = |it: &Listed| it.sector == Some(HIGH_DENSITY_SECTOR);
        self.tracks.iter().any(is_edge)
    }

    fn file(&self, listed: &Listed) -> Result<Arc<dyn Device>> {
        let none = || self.error("a disc with its data in no file".to_owned());
        (self.open_file)(listed.file.ok_or_else(none)?)
    }

    /// The only track of data; its volume says where it is.
    fn alone(&self, listed: &Listed) -> Result<Opened> {
        Opened::new(listed, &self.file(listed)?)
    }

    /// All tracks of data with their places, and what is wrong.
    fn place_all(&self) -> Result<(Vec<Opened>, Vec<String>)> {
        let (mut all, mut troubles) = (Vec::new(), Vec::new());
        let mut first_error = None;
        let mut next = Some(0);
        for (index, listed) in self.tracks.iter().enumerate() {
            let gap = if index == 0 { 0 } else { listed.gap_sectors };
            let behind = next.and_then(|next: u64| next.checked_add(gap));
            let mut first = listed.sector.or(behind);
            // A file of music is opened for its length alone.
            let later = self.tracks.get(index + 1..).unwrap_or_default();
            let counts = later.first().is_some_and(|it| it.sector.is_none())
                && later.iter().any(|it| it.is_data);
            let is_open_ended = listed.track.length_bytes == u64::MAX;
            let file = match listed.is_data || (counts && is_open_ended && listed.file.is_some()) {
                true => Some(self.file(listed)),
                false => None,
            };
            let length = match &file {
                Some(Ok(file)) => Some(file.length_bytes()),
                _ => None,
            };
            let open = |file: Result<Arc<dyn Device>>| Opened::new(listed, &file?);
            match file.filter(|_| listed.is_data).map(open) {
                Some(Ok(mut opened)) => {
                    if opened.has_volume {
                        opened.place = session::place(&*opened.device);
                    }
                    if let Place::At(own) = opened.place {
                        first = Some(own);
                    }
                    first = first.filter(|first| *first <= SECTOR_MAX);
                    opened.first = first;
                    all.push(opened);
                }
                Some(Err(error)) => {
                    let number = listed.number;
                    troubles.push(format!("has its track {number} in {}", reason(&error)));
                    first_error = first_error.or(Some(error));
                }
                None => {}
            }
            let sectors = listed.track.sectors(length);
            next = first.and_then(|first| first.checked_add(sectors?));
        }
        match first_error.filter(|_| all.is_empty()) {
            Some(error) => Err(error),
            None => Ok((all, troubles)),
        }
    }
}

/// Words that can follow "in".
fn reason(error: &Error) -> String {
    let text = match error {
        Error::Damaged { what, .. } => what.clone(),
        Error::Unopened(cause) => cause.clone(),
        Error::Device(error) => error.to_string(),
    };
    format!("a file that cannot be opened: {text}")
}

impl Opened {
    fn new(listed: &Listed, file: &Arc<dyn Device>) -> Result<Self> {
        let (device, words) = listed.track.open(file)?;
        Ok(Self {
            number: listed.number,
            words,
            first: None,
            has_volume: volume::is_in(&*device).unwrap_or(false),
            place: Place::Unknown,
            device,
        })
    }

    /// The disc, with the other tracks of data; those with a volume are said unless this one was
    /// named.
    fn inside(
        &self,
        table: &Table<'_>,
        others: &[&Self],
        (is_named, mut troubles): (bool, Vec<String>),
    ) -> Inside {
        let joined = self.join(others);
        let (title, number) = (&table.title, self.number);
        let place = match joined.as_ref().map(|(_, first)| *first) {
            None | Some(0) => String::new(),
            Some(first) => format!(" from sector {first} of its disc on"),
        };
        let more = others.iter().filter(|it| it.has_volume);
        let more: Vec<String> = more.map(|it| it.number.to_string()).collect();
        let others_too = match more.as_slice() {
            [] => String::new(),
            more => format!(" (other tracks with a disc: {})", more.join(", ")),
        };
        if let (Some(first), false) = (more.first(), is_named) {
            let and_more = match more.len() {
                1 => String::new(),
                count => format!(" (and {} more)", count - 1),
            };
            let trouble = format!("has another disc{and_more}, which track={first} shows");
            troubles.push(trouble);
        }
        if let Some((joined, first @ 1..)) = &joined {
            // Its volume may go on in the tracks behind it.
            let there = joined.length_bytes().saturating_sub(first * SECTOR_BYTES);
            troubles.extend(session::shortfall(&*self.device, *first, there));
        }
        Inside {
            device: joined.map_or_else(|| self.device.clone(), |(joined, _)| Arc::new(joined)),
            words: format!("{title}, track {number}{others_too}{place}, {}", self.words),
            troubles,
        }
    }

    /// All tracks as one disc, and the first sector of this one; `None` where it needs no others.
    fn join(&self, others: &[&Self]) -> Option<(Joined, u64)> {
        let first = self
            .first
            .filter(|_| self.has_volume && !others.is_empty())?;
        if self.place == Place::Here && first > 0 {
            return None;
        }
        let placed = others.iter();
        let placed = placed.filter_map(|other| Some((other.first?, other.device.clone())));
        let placed: Vec<_> = placed.collect();
        let joined = Joined::new(&self.device, first, &placed);
        let is_sure = first == 0 || self.place != Place::Unknown;
        (is_sure || session::is_in_place(&joined)).then_some((joined, first))
    }
}
