//! Points at one step, the oldest replaced by new ones.

use super::reading::Reading;
use super::series::SERIES;

/// All series at one time.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// The end of its interval, in seconds since 1970.
    pub(super) time: f64,
    /// By series; NaN without events.
    pub(super) values: [f32; SERIES.len()],
}

pub(super) struct Ring {
    step_seconds: u32,
    points_max: usize,
    /// A ring once it is full.
    points: Vec<Point>,
    /// The oldest of a full ring.
    oldest: usize,
    /// The reading at which the next point begins.
    earlier: Option<Reading>,
    /// Readings since then.
    readings: u32,
    /// Sums of their gauges.
    sums: [f64; SERIES.len()],
}

impl Ring {
    pub(super) fn new(step_seconds: u32, points_max: usize) -> Self {
        Self {
            step_seconds,
            points_max,
            points: Vec::with_capacity(points_max),
            oldest: 0,
            earlier: None,
            readings: 0,
            sums: [0.0; SERIES.len()],
        }
    }

    /// Adds the reading of a second.
    pub(super) fn note(&mut self, reading: &Reading) {
        let Some(earlier) = &self.earlier else {
            self.earlier = Some(reading.clone());
            return;
        };
        self.readings += 1;
        for (number, sum) in self.sums.iter_mut().enumerate() {
            *sum += reading.gauge(number);
        }
        if self.readings < self.step_seconds {
            return;
        }
        // When the clock was set, the nominal step counts.
        let passed = reading.time - earlier.time;
        let step = f64::from(self.step_seconds);
        let seconds = if passed > 0.0 { passed } else { step };
        let readings = f64::from(self.readings);
        let mean = |number: usize| self.sums.get(number).map_or(0.0, |sum| sum / readings);
        let point = Point {
            time: reading.time,
            values: reading.since(earlier, seconds, mean),
        };
        self.put(point);
        self.earlier = Some(reading.clone());
        self.readings = 0;
        self.sums = [0.0; SERIES.len()];
    }

    fn put(&mut self, point: Point) {
        if self.points.len() < self.points_max {
            self.points.push(point);
        } else if let Some(place) = self.points.get_mut(self.oldest) {
            *place = point;
            self.oldest = (self.oldest + 1) % self.points_max;
        }
    }

    /// All points, oldest first.
    pub(super) fn points(&self) -> impl Iterator<Item = &Point> {
        let (late, early) = self.points.split_at(self.oldest);
        early.iter().chain(late)
    }

    /// Its memory on the heap.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let earlier = self.earlier.as_ref().map_or(0, Reading::histogram_bytes);
        self.points.capacity() * size_of::<Point>() + earlier
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_are_means_over_the_step() {
        let mut ring = Ring::new(4, 2);
        let mut reading = Reading::take();
        for second in 0..=12 {
            reading.time = f64::from(second);
            ring.note(&reading);
        }
        let times: Vec<f64> = ring.points().map(|point| point.time).collect();
        assert_eq!(times, [8.0, 12.0]);
        let resident = SERIES.iter().position(|series| series.name == "resident");
        let resident = resident.unwrap();
        let expected = reading.gauge(resident) as f32;
        assert!(expected > 0.0);
        assert!(
            ring.points()
                .all(|point| point.values[resident] == expected)
        );
    }
}
