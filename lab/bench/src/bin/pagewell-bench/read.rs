//! `pagewell bench read`: `pagewell cat` that reads as old systems did, or from a modelled device.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clap::{Args, ValueHint};
use pagewell::command_line::{self, Outcome};
use pagewell_base::size;
use pagewell_bench::experiment::{SECTOR_BYTES, baseline};
use pagewell_cache::{CacheOptions, ReadAheadRule};
use pagewell_device::Device;
use pagewell_layers::model::Parameters;
use pagewell_layers::{Model, Stats};

/// Write files to standard output, read from a modelled device or without a mechanism.
///
/// What the devices of images were asked for is said on standard error.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell bench read --device-model dvd,speed=20 debian.iso::/README.txt
  pagewell bench read --baseline image:debian.iso > /dev/null")]
pub(crate) struct ReadArguments {
    /// What to read: SOURCE::/PATH or a local file
    #[arg(value_name = "LOCATION", required = true, value_hint = ValueHint::AnyPath)]
    locations: Vec<OsString>,
    /// All files below directories
    #[arg(short, long)]
    recursive: bool,
    /// Memory of the page cache [default: 64m, at most 1/8 of the machine's memory]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_positive)]
    cache: Option<u64>,
    /// Put a simulated device over every image: dvd, hdd-7200, fc-15k, ssd or nvme, such as
    /// dvd,speed=20 for one whose clock runs 20 times as fast
    #[arg(long, value_name = "NAME[,speed=X]", value_parser = Parameters::parse)]
    device_model: Option<Parameters>,
    /// Fetch nothing before it is asked for
    #[arg(long)]
    no_readahead: bool,
    /// Send requests to the device as they come, one at a time
    #[arg(long)]
    no_elevator: bool,
    /// Do not join adjacent requests
    #[arg(long)]
    no_merge: bool,
    /// Keep what a stream has passed until its place is needed
    #[arg(long)]
    no_free_behind: bool,
    /// Fetch in pieces of 2 KiB
    #[arg(long)]
    no_page_chunk: bool,
    /// All five: what reading was like without the engine, to measure against
    #[arg(long)]
    baseline: bool,
}

/// A device below an image, counted.
struct Below {
    stats: Arc<Stats>,
    model: Option<Arc<Model>>,
}

impl ReadArguments {
    fn change(&self, options: &mut CacheOptions) {
        if self.baseline {
            *options = CacheOptions {
                reader_keeps: options.reader_keeps,
                ..baseline(options.size_bytes)
            };
        }
        if self.no_readahead {
            options.read_ahead = ReadAheadRule::Off;
        }
        if self.no_page_chunk {
            options.unit_bytes = SECTOR_BYTES;
        }
        options.elevator &= !self.no_elevator;
        options.merge &= !self.no_merge;
        options.free_behind &= !self.no_free_behind;
    }
}

impl Below {
    fn new(device: Arc<dyn Device>, model: Option<&Parameters>) -> std::io::Result<Self> {
        let Some(parameters) = model else {
            let stats = Arc::new(Stats::new(device));
            return Ok(Self { stats, model: None });
        };
        let model = Arc::new(Model::new(device, parameters.clone())?);
        Ok(Self {
            stats: Arc::new(Stats::new(model.clone())),
            model: Some(model),
        })
    }

    fn text(&self) -> String {
        let asked = self.stats.snapshot();
        let (requests, bytes) = (asked.requests(), size::display(asked.bytes()));
        let busy = self.model.as_ref().map_or(String::new(), |model| {
            format!(", busy for {:.3} s", model.totals().busy.as_secs_f64())
        });
        format!("{}: {requests} requests, {bytes}{busy}", self.stats.name())
    }
}

pub(crate) fn run(arguments: &ReadArguments) -> anyhow::Result<Outcome> {
    let all: Arc<Mutex<Vec<Below>>> = Arc::default();
    let (known, model) = (all.clone(), arguments.device_model.clone());
    let layer = move |device| {
        let below = Below::new(device, model.as_ref())?;
        let stats: Arc<dyn Device> = below.stats.clone();
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        known.push(below);
        Ok(stats)
    };
    let began = Instant::now();
    let outcome = command_line::read(
        &arguments.locations,
        arguments.recursive,
        arguments.cache,
        &|options| arguments.change(options),
        Box::new(layer),
    )?;
    let seconds = began.elapsed().as_secs_f64();
    for below in all.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        eprintln!("pagewell: {}", below.text());
    }
    eprintln!("pagewell: read in {seconds:.3} s");
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        read: ReadArguments,
    }

    #[test]
    fn each_switch_turns_one_thing_off() {
        let all = CacheOptions::new(8 << 20);
        let options = |word| {
            let line = Line::try_parse_from(["read", word, "a"]).unwrap();
            let mut options = all;
            line.read.change(&mut options);
            options
        };
        assert_eq!(options("-r"), all);
        let read_ahead = ReadAheadRule::Off;
        assert_eq!(
            options("--no-readahead"),
            CacheOptions { read_ahead, ..all }
        );
        let elevator = false;
        assert_eq!(options("--no-elevator"), CacheOptions { elevator, ..all });
        let merge = false;
        assert_eq!(options("--no-merge"), CacheOptions { merge, ..all });
        let free_behind = false;
        assert_eq!(
            options("--no-free-behind"),
            CacheOptions { free_behind, ..all }
        );
        let unit_bytes = 2048;
        assert_eq!(
            options("--no-page-chunk"),
            CacheOptions { unit_bytes, ..all }
        );
        assert_eq!(options("--baseline"), baseline(8 << 20));
    }

    #[test]
    fn models_that_are_none_are_refused() {
        for model in ["tape", "dvd,speed=0"] {
            let line = ["read", "--device-model", model, "a"];
            let error = Line::try_parse_from(line).err().unwrap().to_string();
            assert!(error.contains(model), "{error}");
        }
    }
}
