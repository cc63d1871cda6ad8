//! The distance of a stream: what lets it grow, and what makes it shrink.
//!
//! The rules are those of the module above and of [`super::super::bandwidth_delay`].

use super::super::Counts;
use super::super::settings::{
    FAR_TIMES, LATE_GROWTH_DIVISOR, LEARNT_TIMES, START_REQUESTS, Settings, up,
};
use super::gain::Growth;
use super::{Stream, Touch};

/// The first distance on a device that may need one of `far`; 0 when that is not long.
pub(super) fn first_far(request: u64, far: u64, settings: &Settings) -> u64 {
    let far = far.min(settings.distance_bytes_max);
    if far > settings.distance_bytes_grown() {
        request.saturating_mul(FAR_TIMES).min(far)
    } else {
        0
    }
}

impl Stream {
    /// Takes the parts of the first read for one request, where the device is far.
    pub(super) fn begin_far(&mut self, touch: &Touch, settings: &Settings) {
        let first = first_far(self.ordered, touch.far(), settings);
        self.distance = self.distance.max(up(first, settings.page_bytes));
    }

    /// Grows the distance because read-ahead was late.
    pub(super) fn grow(&mut self, touch: &Touch, settings: &Settings, counts: &mut Counts) {
        let grown = settings.distance_bytes_grown();
        if self.distance >= grown {
            if settings.block_bytes.is_some() && !self.growth_pays(touch, grown, counts) {
                return;
            }
            let more = self.distance / LATE_GROWTH_DIVISOR;
            self.distance = self
                .distance
                .saturating_add(more)
                .min(settings.distance_bytes_max);
        } else if !self.doubling {
            self.distance = self.distance.saturating_mul(2).min(grown);
        } else {
            return;
        }
        counts.grown += 1;
    }

    /// Whether growing has paid until now, if that can be told. If not, takes back what did not.
    fn growth_pays(&mut self, touch: &Touch, grown: u64, counts: &mut Counts) -> bool {
        let pace = self.pace.as_ref();
        let rate = pace
            .zip(touch.latency)
            .and_then(|(pace, latency)| pace.rate(touch.offset, touch.now, latency));
        let Some(rate) = rate else {
            return true;
        };
        match self.gain.late(rate, self.distance) {
            Growth::On => true,
            Growth::Stop => false,
            Growth::Back(distance) => {
                counts.unpaid += 1;
                self.distance = self.distance.min(distance.max(grown));
                false
            }
        }
    }

    /// Grows the distance to what the latency of the device asks for, and says to which. `None`:
    /// it is so long already.
    pub(super) fn grow_far(
        &mut self,
        touch: &Touch,
        settings: &Settings,
        counts: &mut Counts,
    ) -> Option<u64> {
        let needed = self
            .pace
            .as_ref()?
            .needed(touch.offset, touch.now, touch.latency?);
        let needed = needed.filter(|_| !self.squeezed)?;
        if !self.widen(needed, FAR_TIMES, settings) {
            return None;
        }
        counts.far += 1;
        Some(self.distance)
    }

    /// Takes the distance to what a far device needs, as far as the stream is proven.
    fn widen(&mut self, needed: u64, times: u64, settings: &Settings) -> bool {
        let allowed = needed.min(self.read_times(times));
        let distance = up(allowed, settings.page_bytes).min(settings.distance_bytes_max);
        let is_longer = distance > self.distance;
        self.distance = self.distance.max(distance);
        is_longer
    }

    /// So many times what the stream has read.
    fn read_times(&self, times: u64) -> u64 {
        self.ordered.saturating_mul(times)
    }

    /// The distance of a stream that has not come to what is usual, or to what others have learnt.
    pub(super) fn double(&mut self, learnt: u64, settings: &Settings, counts: &mut Counts) {
        let grown = settings.distance_bytes_grown();
        let longer = if settings.block_bytes.is_some() {
            // There are many steps to a distance.
            up(self.read_times(START_REQUESTS), settings.page_bytes)
        } else {
            self.distance.saturating_mul(2)
        };
        self.distance = self.distance.max(longer.min(grown));
        let learnt = learnt.min(settings.distance_bytes_max);
        if learnt > grown {
            counts.far += u64::from(self.widen(learnt, LEARNT_TIMES, settings));
        }
        self.doubling = self.distance < grown.max(learnt);
    }

    /// Counts bytes that were read.
    pub(in super::super) fn useful(&mut self, bytes: u64) {
        self.judged.useful(bytes, self.distance.saturating_mul(2));
    }

    /// Counts bytes that were evicted unread. True if the distance shrank.
    pub(in super::super) fn wasted(&mut self, bytes: u64, settings: &Settings) -> bool {
        self.pressed = true;
        let recent = self.distance.saturating_mul(2);
        let is_too_much = self.judged.wasted(bytes, self.distance / 2, recent);
        if is_too_much {
            self.shrink(settings);
        }
        is_too_much
    }

    /// There was no memory from `offset` on.
    pub(in super::super) fn refused(&mut self, offset: u64, settings: &Settings) {
        self.window_end = self.window_end.min(offset.max(self.position));
        if self.marker.is_some_and(|marker| marker >= self.window_end) {
            self.marker = None;
        }
        self.pressed = true;
        self.shrink(settings);
    }

    pub(super) fn shrink(&mut self, settings: &Settings) {
        self.distance = up(self.distance / 2, settings.page_bytes);
        self.doubling = false;
        self.squeezed = true;
    }
}
