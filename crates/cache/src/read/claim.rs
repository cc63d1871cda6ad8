//! Runs: pieces of pages that one reader has taken upon himself to fetch.
//!
//! A page is claimed under the lock of its flights, so a unit is fetched by one request. Adjacent
//! runs travel together. When the request ends, the units that came become valid, then the flight
//! leaves the map, then those who wait are told; a run that is given up ends all the same.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pagewell_counters::names::{CACHE_FETCH_ERRORS, CACHE_FILLS, CACHE_JOINED};
use pagewell_device::{Error as DeviceError, Issuer, Operation, Segment, after_burst};
use pagewell_policy::elevator::Extent;

use crate::PAGE_BYTES;
use crate::io_queue::Transfer;
use crate::object::{Held, Object};
use crate::page::{PAGE, Units};
use crate::read::fill::Fill;
use crate::read::miss::Wanted;
use crate::residency::in_flight::Flight;
use crate::table::state::{DIRTY, FULL, State};

/// A run of units of one page that is ours to fetch.
pub(crate) struct Run {
    offset: u64,
    length: u64,
    held: Held,
    page: u64,
    pub(crate) flight: Arc<Flight>,
    /// The bytes do not go straight into the page.
    fill: Option<Fill>,
}

/// What has to be done for some pages.
#[derive(Default)]
pub(crate) struct Claims {
    pub(crate) runs: Vec<Run>,
    pub(crate) joined: Vec<Arc<Flight>>,
    /// Another page has the name by now: hold that, and claim again.
    pub(crate) stale: bool,
}

impl Object {
    /// Finds out, for the wanted units of a page, which are on their way and which are ours.
    /// With `widen`, a page that is met again is fetched to its ends. So is the first of a file
    /// when its first byte is wanted: most who begin there go on, and then it is one request, not
    /// two.
    pub(crate) fn claim(
        self: &Arc<Self>,
        wanted: &Wanted,
        ahead: bool,
        widen: bool,
        claims: &mut Claims,
    ) {
        let frame = wanted.held.frame;
        let mut flights = self.core.flights(frame);
        if self.core.table.key(wanted.held.slot) != self.key(wanted.page) {
            // What is there is complete; what is not would be filled in from a device that
            // writers have left behind.
            claims.stale |= wanted.units & !self.core.valid(frame) != 0;
            return;
        }
        let valid = self.core.valid(frame);
        let mut missing = wanted.units & !valid;
        if missing == 0 {
            return;
        }
        let here = flights.entry(frame.0).or_default();
        let mut flying = 0;
        for flight in here.iter() {
            flying |= flight.units;
            if flight.units & missing != 0 {
                CACHE_JOINED.add(u64::from(!ahead));
                claims.joined.push(flight.clone());
            }
        }
        missing &= !flying;
        let is_begun = missing & 1 != 0 && self.begins_file_at(wanted.page * PAGE);
        if missing != 0 && widen && (is_begun || (valid | flying) != 0) {
            missing = self.all_units(wanted.page) & !valid & !flying;
        }
        let longest = self.request_bytes_max / self.unit_bytes;
        let (dirty, partial) = self.partly_dirty(wanted, missing);
        let plain = runs_of(missing & !partial, longest);
        let filled = runs_of(partial, longest);
        let filled = filled.into_iter().map(|units| (units, Some(&dirty)));
        let mut runs: Vec<_> = plain.into_iter().map(|units| (units, None)).collect();
        runs.extend(filled);
        runs.sort_unstable_by_key(|(units, _)| units.trailing_zeros());
        for (units, kept) in runs {
            let flight = Arc::new(Flight::new(units, ahead));
            here.push(flight.clone());
            claims.runs.push(self.run(wanted, units, flight, kept));
        }
        if here.is_empty() {
            flights.remove(&frame.0);
        }
    }

    /// Dirty bytes of a page, and which of the missing units have some.
    fn partly_dirty(&self, wanted: &Wanted, missing: Units) -> (Vec<Range<usize>>, Units) {
        if missing == 0 || !self.core.table.state(wanted.held.slot).has(DIRTY) {
            return (Vec::new(), 0);
        }
        let dirty = self.dirty_inside(wanted.page, 0, PAGE);
        let units = dirty.iter().fold(0, |units, range| {
            units | self.units(range.start as u64, range.len() as u64)
        });
        (dirty, units & missing)
    }

    fn run(
        self: &Arc<Self>,
        wanted: &Wanted,
        units: Units,
        flight: Arc<Flight>,
        kept: Option<&Vec<Range<usize>>>,
    ) -> Run {
        let base = wanted.page * PAGE;
        let first = u64::from(units.trailing_zeros()) * self.unit_bytes;
        let offset = base + first;
        let end = offset + u64::from(units.count_ones()) * self.unit_bytes;
        let last = self.length_bytes.next_multiple_of(self.block_bytes);
        let length = end.min(last) - offset;
        if flight.ahead {
            self.core.ahead_bytes.fetch_add(length, Ordering::Relaxed);
        }
        #[allow(clippy::cast_possible_truncation)] // inside a page
        let fill = kept.map(|kept| {
            CACHE_FILLS.add(1);
            let alignment = self.queue.memory_alignment_bytes();
            Fill::new(
                (offset % PAGE) as usize,
                length as usize,
                alignment,
                kept.clone(),
            )
        });
        Run {
            fill,
            offset,
            length,
            held: self.hold_again(&wanted.held),
            page: wanted.page,
            flight,
        }
    }

    /// One more hold on a page that is held.
    fn hold_again(self: &Arc<Self>, held: &Held) -> Held {
        self.core.table.pin_again(held.slot);
        self.hold(crate::residency::pages::Page {
            slot: held.slot,
            frame: held.frame,
            state: State(0),
        })
    }

    /// Makes requests of runs, adjacent ones of one file together, and sends them.
    pub(crate) fn send(self: &Arc<Self>, runs: Vec<Run>, issuer: Issuer) {
        let mut groups: Vec<Vec<Run>> = Vec::new();
        let mut group_bytes = 0;
        for run in runs {
            let adjacent = groups.last().and_then(|group| group.last());
            let adjacent = adjacent.is_some_and(|last| last.offset + last.length == run.offset)
                && !self.begins_file_at(run.offset);
            let fits = group_bytes + run.length <= self.request_bytes_max;
            match groups.last_mut() {
                Some(group) if adjacent && fits => {
                    group_bytes += run.length;
                    group.push(run);
                }
                _ => {
                    group_bytes = run.length;
                    groups.push(vec![run]);
                }
            }
        }
        if groups.is_empty() {
            return;
        }
        let mut guesses = Vec::new();
        let fetches = groups.into_iter().map(|group| {
            let id = self.queue.name_request();
            for run in &group {
                run.flight.name(id);
                if run.flight.ahead {
                    guesses.push((id, run.flight.clone()));
                }
            }
            (id, self.fetch(group, issuer))
        });
        let fetches = fetches.collect();
        // SAFETY: every segment is a run of units of a page that its `Run` holds until the
        // completion has run, and that only this request may write: they were claimed, and
        // writers of them wait for the flight. Or it is memory that the `Run` owns.
        unsafe { self.queue.submit(fetches) };
        // Readers may have joined before the queue knew the requests.
        let wanted = guesses.iter().filter(|(_, flight)| flight.is_wanted());
        let wanted: Vec<_> = wanted.map(|(id, _)| *id).collect();
        self.queue.promote(&wanted);
    }

    fn fetch(self: &Arc<Self>, mut group: Vec<Run>, issuer: Issuer) -> Transfer {
        let offset = group.first().map_or(0, |run| run.offset);
        let length = group.iter().map(|run| run.length).sum();
        let segments = group.iter_mut().map(|run| self.segment(run)).collect();
        let this = self.clone();
        Transfer {
            operation: Operation::Read,
            durable: false,
            extent: Extent { offset, length },
            segments,
            issuer,
            // The queue sends the next request first: the device may have nothing else to do.
            completion: Box::new(move |transferred, result| {
                after_burst(move || this.arrived(group, offset + transferred as u64, result));
            }),
        }
    }

    fn segment(&self, run: &mut Run) -> Segment {
        if let Some(fill) = &mut run.fill {
            return fill.segment();
        }
        #[allow(clippy::cast_possible_truncation)] // inside a page
        let (start, length) = ((run.offset % PAGE) as usize, run.length as usize);
        assert!(start + length <= PAGE_BYTES);
        // SAFETY: inside the page.
        let start = unsafe { self.core.arena.address(run.held.frame).add(start) };
        Segment::new(start, length)
    }

    /// Everything before `end` has come.
    fn arrived(&self, group: Vec<Run>, end: u64, result: Result<(), DeviceError>) {
        for mut run in group {
            // The last block may reach past the end.
            let needed = (run.offset + run.length).min(self.length_bytes);
            let complete = end >= needed;
            let whole = (end.saturating_sub(run.offset) / self.unit_bytes).min(32);
            let (units, outcome) = if complete {
                (run.flight.units, Ok(()))
            } else {
                CACHE_FETCH_ERRORS.add(1);
                let units = units_from(run.flight.units.trailing_zeros(), whole);
                let error = result.clone().err().unwrap_or_else(|| self.short(end));
                (run.flight.units & units, Err(error))
            };
            run.end(units, outcome);
        }
    }
}

impl Run {
    /// Bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Ends it: these units have come.
    fn end(&mut self, units: Units, outcome: Result<(), DeviceError>) {
        let (object, frame) = (self.held.object(), self.held.frame);
        #[allow(clippy::cast_possible_truncation)] // at most a page
        if let Some(fill) = &self.fill {
            // SAFETY: held by us, and our flight lands below.
            unsafe {
                let unit_bytes = object.unit_bytes as usize;
                fill.apply(&object.core.arena, frame, units, unit_bytes);
            }
        }
        let valid = object.core.validate(frame, units);
        if valid == object.all_units(self.page) {
            object.core.table.set(self.held.slot, FULL);
        }
        let mut flights = object.core.flights(frame);
        if let Some(here) = flights.get_mut(&frame.0) {
            here.retain(|flight| !Arc::ptr_eq(flight, &self.flight));
            if here.is_empty() {
                flights.remove(&frame.0);
            }
        }
        drop(flights);
        if self.flight.ahead {
            let bytes = &object.core.ahead_bytes;
            bytes.fetch_sub(self.length, Ordering::Relaxed);
        }
        self.flight.land(outcome);
        if self.fill.is_some() || object.writes_span_clean_bytes() {
            object.filled();
        }
    }
}

/// Nobody waits for ever for a run that was given up, whatever the reason.
impl Drop for Run {
    fn drop(&mut self) {
        if !self.flight.has_landed() {
            let offset = self.offset;
            self.end(0, Err(DeviceError::Abandoned { offset }));
        }
    }
}

/// `count` units from `first`.
fn units_from(first: u32, count: u64) -> Units {
    let all = (u64::from(Units::MAX) << first) & u64::from(Units::MAX);
    let end = u64::from(first) + count;
    let below = if end >= 32 {
        u64::from(Units::MAX)
    } else {
        (1 << end) - 1
    };
    #[allow(clippy::cast_possible_truncation)] // masked
    {
        (all & below) as Units
    }
}

/// The runs of adjacent units, none longer than `longest`.
fn runs_of(mut units: Units, longest: u64) -> Vec<Units> {
    let mut runs = Vec::new();
    while units != 0 {
        let first = units.trailing_zeros();
        let length = u64::from((units >> first).trailing_ones()).min(longest.max(1));
        let run = units_from(first, length);
        runs.push(run);
        units &= !run;
    }
    runs
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn runs_are_adjacent_units() {
        assert_eq!(runs_of(0, 32), []);
        assert_eq!(runs_of(0b1101_1000, 32), [0b1_1000, 0b1100_0000]);
        assert_eq!(runs_of(0b111, 1), [1, 2, 4]);
        assert_eq!(runs_of(u32::MAX, 32), [u32::MAX]);
        assert_eq!(runs_of(u32::MAX, 16), [0xffff, 0xffff_0000]);
        assert_eq!(units_from(31, 1), 1 << 31);
        assert_eq!(units_from(4, 0), 0);
    }
}
