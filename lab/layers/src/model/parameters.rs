//! The parameters of a modelled device, presets and their text form.
//!
//! `NAME[,OPTION=VALUE]...`, for instance `dvd`, `dvd,speed=20` or `hdd-7200,seek=12ms,depth=1`.
//!
//! | option | value | meaning |
//! |---|---|---|
//! | `speed` | number | the model's clock runs so many times as fast as the wall's |
//! | `fixed` | time | cost of every request |
//! | `rate` | size | bytes per second from the medium |
//! | `interface` | size | bytes per second from the drive's buffer |
//! | `seek` | time | cost of going elsewhere; with a seek curve the average |
//! | `rpm` | number | turns per minute, 0 for none |
//! | `depth` | number | requests inside the device at a time |
//! | `transfer` | size | longest transfer, in bytes |
//! | `cache` | size | the drive's read-ahead buffer, 0 for none |
//!
//! For sizes and times see [`pagewell_base::size`] and [`pagewell_base::duration`].

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use pagewell_base::{duration, size};

/// Why a text does not describe a modelled device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParametersError {
    /// No preset has this name.
    #[error("no device model '{0}'; there are {presets}", presets = preset_names())]
    UnknownPreset(String),
    /// No option has this name.
    #[error("no option '{0}' of a device model; there are {OPTIONS}")]
    UnknownOption(String),
    /// An option has no value or a wrong one.
    #[error("option '{option}' of a device model: {reason}")]
    BadValue {
        /// The option.
        option: String,
        /// What is wrong with its value.
        reason: String,
    },
}

const OPTIONS: &str = "speed, fixed, rate, interface, seek, rpm, depth, transfer, cache";

/// The time to go to another place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seek {
    /// No head: accesses overlap, only transfers take turns.
    None,
    /// The same to all places.
    Fixed(Duration),
    /// Grows with the square root of the distance, as an arm speeds up and brakes.
    Curve {
        /// To the next track.
        track: Duration,
        /// Mean over random pairs of places.
        average: Duration,
    },
}

/// The parameters of a modelled device.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Its preset.
    pub name: &'static str,
    /// How many times faster the model's clock runs than the wall's.
    pub speed: f64,
    /// Cost of every request, whatever its size.
    pub fixed: Duration,
    /// Bytes per second from the medium.
    pub media_bytes_per_second: f64,
    /// Bytes per second from the drive's buffer.
    pub interface_bytes_per_second: f64,
    /// Cost of a request that does not continue where the last one ended.
    pub seek: Seek,
    /// The time of one turn; zero for none.
    pub turn: Duration,
    /// Requests inside the device at a time.
    pub queue_depth: u32,
    /// Longer requests are cut.
    pub transfer_bytes_max: u32,
    /// The drive's read-ahead buffer; zero for none.
    pub cache_bytes: u64,
}

impl Parameters {
    /// Parses `NAME[,OPTION=VALUE]...`; see the module's text.
    pub fn parse(text: &str) -> Result<Self, ParametersError> {
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default();
        let preset = PRESETS.into_iter().find(|one| one.name == name);
        let unknown = || ParametersError::UnknownPreset(name.to_owned());
        let mut parameters = preset.ok_or_else(unknown)?;
        for part in parts {
            let (option, value) = part.split_once('=').unwrap_or((part, ""));
            let known = parameters.set(option, value);
            let known = known.map_err(|reason| ParametersError::BadValue {
                option: option.to_owned(),
                reason,
            })?;
            if !known {
                return Err(ParametersError::UnknownOption(option.to_owned()));
            }
        }
        Ok(parameters)
    }

    /// Sets one option from text. False for an unknown one.
    fn set(&mut self, option: &str, value: &str) -> Result<bool, String> {
        const GIB: u64 = 1 << 30;
        match option {
            "speed" => self.speed = within(value, "number", 0.001, 1e6)?,
            "fixed" => self.fixed = time(value)?,
            "rate" => self.media_bytes_per_second = size::within(value, 1024..=1024 * GIB)? as f64,
            "interface" => {
                self.interface_bytes_per_second = size::within(value, 1024..=1024 * GIB)? as f64
            }
            "seek" => self.set_seek(time(value)?)?,
            "rpm" => {
                let rpm = within(value, "number", 0.0, 1e6)?;
                self.turn = if rpm < 1.0 {
                    Duration::ZERO
                } else {
                    Duration::from_secs_f64(60.0 / rpm)
                };
            }
            "depth" => self.queue_depth = within(value, "whole number", 1, 4096)?,
            // 32 bits hold the bounds.
            "transfer" => self.transfer_bytes_max = size::within(value, 512..=GIB)? as u32,
            "cache" => self.cache_bytes = size::within(value, 0..=1024 * GIB)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_seek(&mut self, duration: Duration) -> Result<(), String> {
        self.seek = match self.seek {
            Seek::None => return Err(format!("'{}' has no head that seeks", self.name)),
            Seek::Fixed(_) => Seek::Fixed(duration),
            Seek::Curve { track, .. } => Seek::Curve {
                track: track.min(duration),
                average: duration,
            },
        };
        Ok(())
    }

    /// Whether going to another place costs time.
    pub fn rotational(&self) -> bool {
        self.seek != Seek::None
    }
}

fn preset_names() -> String {
    PRESETS.map(|one| one.name).join(", ")
}

pub(super) const PRESETS: [Parameters; 5] = [DVD, HDD_7200, FC_15K, SSD, NVME];

/// A data DVD in a laptop's drive, fitted to published request sizes and rates: 2 KiB in 0.66 ms,
/// 12 KiB in 1.81 ms, 16 KiB in 2.27 ms, 67 ms more elsewhere. The drive takes one command at a
/// time, of at most 256 sectors of 512 bytes as in a 28-bit ATA transfer.
const DVD: Parameters = Parameters {
    name: "dvd",
    speed: 1.0,
    fixed: Duration::from_micros(430),
    media_bytes_per_second: 1024.0 / 115e-6,
    interface_bytes_per_second: 33e6,
    seek: Seek::Fixed(Duration::from_millis(67)),
    turn: Duration::ZERO,
    queue_depth: 1,
    transfer_bytes_max: 128 << 10,
    cache_bytes: 0,
};

/// A desktop disk: 7200 turns a minute, SATA 6 Gbit/s, queued commands.
const HDD_7200: Parameters = Parameters {
    name: "hdd-7200",
    fixed: Duration::from_micros(100),
    media_bytes_per_second: 150e6,
    interface_bytes_per_second: 600e6,
    seek: Seek::Curve {
        track: Duration::from_micros(800),
        average: Duration::from_micros(8500),
    },
    turn: Duration::from_nanos(8_333_333),
    queue_depth: 32,
    transfer_bytes_max: 1 << 20,
    cache_bytes: 8 << 20,
    ..DVD
};

/// A server disk of 2002: 15,000 turns a minute on 2 Gbit/s Fibre Channel. Reads of 1 MiB, one at a
/// time, take 15.74 ms each.
const FC_15K: Parameters = Parameters {
    name: "fc-15k",
    fixed: Duration::from_micros(150),
    media_bytes_per_second: 66.6e6,
    interface_bytes_per_second: 200e6,
    seek: Seek::Curve {
        track: Duration::from_micros(500),
        average: Duration::from_micros(3800),
    },
    turn: Duration::from_millis(4),
    queue_depth: 16,
    transfer_bytes_max: 1 << 20,
    cache_bytes: 4 << 20,
    ..DVD
};

/// Flash behind SATA 6 Gbit/s.
const SSD: Parameters = Parameters {
    name: "ssd",
    fixed: Duration::from_micros(80),
    media_bytes_per_second: 550e6,
    interface_bytes_per_second: 550e6,
    seek: Seek::None,
    queue_depth: 32,
    transfer_bytes_max: 1 << 20,
    ..DVD
};

/// Flash on PCI Express.
const NVME: Parameters = Parameters {
    name: "nvme",
    fixed: Duration::from_micros(20),
    media_bytes_per_second: 3e9,
    interface_bytes_per_second: 3e9,
    queue_depth: 128,
    ..SSD
};

fn within<T: FromStr + PartialOrd + Display>(
    text: &str,
    kind: &str,
    low: T,
    high: T,
) -> Result<T, String> {
    let value = text.parse().ok();
    let value = value.filter(|value| (&low..=&high).contains(&value));
    value.ok_or_else(|| format!("'{text}' is no {kind} from {low} to {high}"))
}

fn time(text: &str) -> Result<Duration, String> {
    duration::within(text, Duration::ZERO..=Duration::from_hours(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_has_its_own_name() {
        for preset in PRESETS {
            assert_eq!(Parameters::parse(preset.name), Ok(preset));
        }
        assert!(Parameters::parse("DVD").is_err());
    }

    #[test]
    fn options_change_what_they_name() {
        let text = "hdd-7200,speed=2.5,fixed=1ms,rate=1m,interface=2m,seek=12ms,rpm=6000,depth=3,\
                    transfer=64k,cache=0";
        let parameters = Parameters::parse(text).unwrap();
        let expected = Parameters {
            name: "hdd-7200",
            speed: 2.5,
            fixed: Duration::from_millis(1),
            media_bytes_per_second: 1048576.0,
            interface_bytes_per_second: 2097152.0,
            seek: Seek::Curve {
                track: Duration::from_micros(800),
                average: Duration::from_millis(12),
            },
            turn: Duration::from_millis(10),
            queue_depth: 3,
            transfer_bytes_max: 65536,
            cache_bytes: 0,
        };
        assert_eq!(parameters, expected);
        assert_eq!(Parameters::parse("dvd,rpm=0").unwrap().turn, Duration::ZERO);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            (
                "",
                "no device model ''; there are dvd, hdd-7200, fc-15k, ssd, nvme",
            ),
            (
                "cdrom,speed=2",
                "no device model 'cdrom'; there are dvd, hdd-7200",
            ),
            (
                "dvd,colour=1",
                "no option 'colour' of a device model; there are speed, fixed",
            ),
            ("dvd,", "no option ''"),
            (
                "dvd,speed",
                "option 'speed' of a device model: '' is no number",
            ),
            ("dvd,speed=0", "'0' is no number from 0.001 to 1000000"),
            ("dvd,speed=NaN", "'NaN' is no number"),
            ("dvd,speed=-1", "'-1' is no number"),
            ("dvd,rate=0", "a size from 1.0 KiB to 1.0 TiB"),
            ("dvd,fixed=25h", "a time from 0ns to 86400s"),
            ("dvd,depth=0", "'0' is no whole number from 1 to 4096"),
            ("dvd,depth=5000", "'5000' is no whole number"),
            ("dvd,transfer=2g", "a size from 512 B to 1.0 GiB"),
            (
                "ssd,seek=1ms",
                "option 'seek' of a device model: 'ssd' has no head",
            ),
        ] {
            let error = Parameters::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
