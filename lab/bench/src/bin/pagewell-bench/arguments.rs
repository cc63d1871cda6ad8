//! The command line: experiments, and two results compared.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand};
use pagewell::command_line::{self, Outcome, seconds_text};
use pagewell_base::duration;
use pagewell_bench::experiment::{
    Options, Session, direct, document, nfs, page, seekreadwrite, text,
};
use pagewell_load::measure::Environment;

use crate::compare;
use crate::names::{Experiments, experiments};
use crate::read::{self, ReadArguments};
use crate::result_file::ResultFile;

/// Measure: repeat well-known reports of slow storage, baseline against enhanced.
///
/// Every row says what the device was asked for and what it cost; what must hold is printed as
/// PASS or FAIL, and a FAIL makes the exit code 1. A limit of time that is broken, as a busy
/// machine breaks it, is NOT PROVEN and no FAIL: counts decide.
#[derive(Debug, Parser)]
#[command(
    name = "pagewell-bench",
    bin_name = "pagewell bench",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  pagewell bench hsfs --quick                       a DVD, modelled, in about a minute
  pagewell bench all --repeat 5 --json now.json     everything, for programs
  pagewell bench read --device-model dvd a.iso      an image as a DVD would give it
  pagewell bench compare before/ now/               what has changed? Four or more runs of each"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    /// The experiment, or `all`
    #[arg(value_name = "EXPERIMENT", required = true, value_parser = experiments())]
    experiments: Option<Experiments>,
    #[command(flatten)]
    manner: Manner,
}

/// How to measure, and where the result goes.
#[derive(Debug, Args)]
struct Manner {
    /// Smaller cases: all experiments in three minutes
    #[arg(long)]
    quick: bool,
    /// How often each case runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Begin nothing new after this time
    #[arg(long, value_name = "TIME", default_value = "2h", value_parser = duration::parse)]
    time_max: Duration,
    /// Write the result as JSON to a file; - is standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the result as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// One experiment with options of its own.
#[derive(Debug, Args)]
struct Chosen<C: Args> {
    #[command(flatten)]
    choice: C,
    #[command(flatten)]
    manner: Manner,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Read the same bytes directly, raw, buffered and without a copy
    #[command(after_help = "\
Examples:
  pagewell bench direct --quick                          all paths, modelled disks and a file
  pagewell bench direct --blocks 2k --bs 1m --direct /dev/sdb /dev/sdc
  pagewell bench direct --nocopy model:fc-15k model:fc-15k")]
    Direct(Chosen<direct::Choice>),
    /// Rewrite cached blocks under the rules that say when they go to the device
    #[command(
        name = "seekreadwrite",
        after_help = "\
Examples:
  pagewell bench seekreadwrite --quick                       the report's table
  pagewell bench seekreadwrite --blocks 16 --write-size 4095 --rule delayed --rule block-end
  pagewell bench seekreadwrite memory model:hdd-7200,speed=20 delay:5ms"
    )]
    SeekReadWrite(Chosen<seekreadwrite::Choice>),
    /// Read and write files over NFS in the eight ways of the report
    #[command(after_help = "\
Examples:
  pagewell bench nfs --quick                               small files, own server
  pagewell bench nfs --size 1g --fio                       large ones, and fio's text
  pagewell bench nfs 'nfs://filer/export?delay=1'          any server, 1 ms further away")]
    Nfs(Chosen<nfs::Choice>),
    /// Compare results of two programs; proven to be worse gives exit code 1
    ///
    /// Each is a result, or a folder of results of whole runs of one program. Runs of the two in
    /// turn (A B A B ...) tell a slower program from a machine that was slower for a while.
    #[command(after_help = "\
Examples:
  pagewell bench compare before.json now.json       two runs: what differs, proven or not
  pagewell bench compare before/ now/               four or more runs of each can prove it")]
    Compare {
        /// The result from before, or a folder of such results
        #[arg(value_name = "A")]
        before: PathBuf,
        /// The result in question, or a folder of such results
        #[arg(value_name = "B")]
        after: PathBuf,
    },
    /// Write files to standard output, read from a modelled device or without a mechanism
    Read(ReadArguments),
    /// Write the manual pages of `pagewell bench` to a directory
    #[command(hide = true)]
    Man {
        /// Where; made if it is missing
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    match &arguments.command {
        Some(BenchCommand::Compare { before, after }) => compare::run(before, after),
        Some(BenchCommand::Read(arguments)) => read::run(arguments),
        Some(BenchCommand::Man { directory }) => {
            command_line::write_manual(&Arguments::command(), "bench", directory)?;
            Ok(Outcome::Done)
        }
        Some(BenchCommand::Direct(Chosen { choice, manner })) => {
            measure(manner, |session| direct::run_choice(session, choice))
        }
        Some(BenchCommand::SeekReadWrite(Chosen { choice, manner })) => {
            measure(manner, |session| seekreadwrite::run_choice(session, choice))
        }
        Some(BenchCommand::Nfs(Chosen { choice, manner })) => {
            measure(manner, |session| nfs::run_choice(session, choice))
        }
        None => measure(&arguments.manner, |session| {
            for experiment in arguments.experiments.iter().flat_map(|list| &list.0) {
                experiment.run(session);
            }
        }),
    }
}

fn measure(manner: &Manner, run: impl FnOnce(&mut Session)) -> anyhow::Result<Outcome> {
    let environment = Environment::here();
    let to_output = manner.json.as_deref() == Some(Path::new("-"));
    let json = manner.json.as_deref().filter(|_| !to_output);
    let json = json.map(ResultFile::open).transpose()?;
    let html = manner.html.as_deref().map(ResultFile::open).transpose()?;
    let mut session = Session::new(Options {
        quick: manner.quick,
        repeat: manner.repeat as usize,
        time_max: manner.time_max,
        progress: true,
    });
    run(&mut session);
    session.finish();
    let value = format!("{:#}\n", document(&environment, &session));
    // What one of them cannot take, the others have.
    let written = json.map_or(Ok(()), |file| file.write(&value));
    let shown = html.map_or(Ok(()), |file| {
        let seconds = i64::try_from(environment.unix_seconds).unwrap_or(0);
        let date = seconds_text(seconds);
        file.write(&page(&environment, &session, &date))
    });
    let mut out = std::io::stdout().lock();
    if to_output {
        out.write_all(value.as_bytes())?;
    } else {
        out.write_all(text(&session).as_bytes())?;
    }
    out.flush()?;
    written.and(shown)?;
    Ok(Outcome::from_failures(u64::from(!session.is_good())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::read;
    use pagewell_bench::experiment::Rule;
    use std::fs;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn direct_takes_the_options_of_the_report() {
        let line = "bench direct --blocks 2k --bs 1m --direct --raw a model:fc-15k,speed=2";
        let line = Arguments::try_parse_from(line.split(' ')).unwrap();
        let Some(BenchCommand::Direct(arguments)) = line.command else {
            panic!("no command");
        };
        let choice = arguments.choice;
        let paths = [choice.direct, choice.raw, choice.buffered, choice.nocopy];
        assert_eq!(paths, [true, true, false, false]);
        assert_eq!(
            (choice.blocks, choice.block_bytes),
            (Some(2048), Some(1 << 20))
        );
        assert_eq!(choice.targets.len(), 2);
        assert_eq!(choice.targets[0], direct::TargetName::Path("a".into()));
        let bad = ["bench", "direct", "model:tape"];
        assert!(
            Arguments::try_parse_from(bad)
                .unwrap_err()
                .to_string()
                .contains("tape")
        );
        let all = Arguments::try_parse_from(["bench", "filecache", "--quick"]).unwrap();
        assert!(all.command.is_none() && all.manner.quick);
    }

    #[test]
    fn seekreadwrite_is_the_program_of_the_report_unless_told_else() {
        let chosen = |line: &str| {
            let line = Arguments::try_parse_from(line.split(' ')).unwrap();
            match line.command {
                Some(BenchCommand::SeekReadWrite(arguments)) => arguments.choice,
                other => panic!("{other:?}"),
            }
        };
        let all = chosen("bench seekreadwrite --quick");
        assert_eq!(all.program, seekreadwrite::Program::default());
        assert!(all.rules.is_empty() && all.targets.is_empty());
        let line = "bench seekreadwrite --blocks 16 --write-size 4095 --rule sync memory";
        let one = chosen(line);
        let program = seekreadwrite::Program {
            blocks: 16,
            write_bytes: 4095,
            ..Default::default()
        };
        assert_eq!(one.program, program);
        assert_eq!(one.rules, [Rule::Sync]);
        for wrong in ["--blocks 0", "--write-size 2m", "--rule never", "tape"] {
            let line = format!("bench seekreadwrite {wrong}");
            assert!(
                Arguments::try_parse_from(line.split(' ')).is_err(),
                "{wrong}"
            );
        }
    }

    fn manner(json: &Path) -> Manner {
        let line = ["bench", "hsfs", "--json", json.to_str().unwrap()];
        Arguments::try_parse_from(line).unwrap().manner
    }

    #[test]
    fn a_result_that_cannot_be_written_is_not_measured() {
        let place = tempfile::tempdir().unwrap();
        let nowhere = place.path().join("missing/result.json");
        let error = measure(&manner(&nowhere), |_| panic!("measured")).unwrap_err();
        assert!(format!("{error:#}").contains("missing/result.json"));
    }

    #[test]
    fn a_result_takes_the_place_of_another_when_it_is_there() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("result.json");
        fs::write(&path, "x".repeat(100_000)).unwrap();
        measure(&manner(&path), |_| {
            assert_eq!(fs::metadata(&path).unwrap().len(), 100_000);
        })
        .unwrap();
        assert!(read(&path).unwrap().is_object());
        fs::write(&path, "").unwrap();
        let error = format!("{:#}", read(&path).unwrap_err());
        assert!(error.contains("bench --json"), "{error}");
    }

    #[test]
    fn files_are_not_larger_than_can_be_laid_out() {
        for (text, is_right) in [
            ("1m", true),
            ("1024g", true),
            ("1k", false),
            ("1025g", false),
            ("6148914691236517205", false),
        ] {
            let line = ["bench", "nfs", "--size", text];
            let parsed = Arguments::try_parse_from(line);
            assert_eq!(parsed.is_ok(), is_right, "{text}");
        }
    }
}
