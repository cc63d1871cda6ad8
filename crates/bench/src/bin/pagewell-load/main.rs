//! `pagewell-load`: makes NFS load, checks data, compares servers.

mod arguments;

use std::process::ExitCode;

use clap::Parser;
use pagewell_bench::load::{run, write_pattern_file};
use pagewell_bench::measure::Environment;
use pagewell_bench::report;
use serde_json::{Map, Value, json};

use arguments::{Arguments, Command, RunArguments};

/// Any error that ends the program; it is only printed.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(arguments) => run_once(&arguments),
        Command::MakeFile { path, size } => {
            write_pattern_file(&path, size).map_err(|error| with_path(&path, &error))
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("pagewell-load: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn with_path(path: &std::path::Path, error: &std::io::Error) -> Failure {
    format!("{}: {error}", path.display()).into()
}

fn run_once(arguments: &RunArguments) -> Result<(), Failure> {
    let load = arguments.load()?;
    let result = run(&arguments.target(), &load, arguments.server_pid)?;
    if arguments.json {
        let case = load.workload.name();
        let row = report::row(("load", case, None), &load, &[result], Map::new());
        println!("{}", document(vec![row]));
    } else {
        println!("{}", report::line(&load, &result));
    }
    Ok(())
}

/// A whole result: rows and the machine they are from.
fn document(rows: Vec<Value>) -> Value {
    json!({ "schema": 1, "environment": Environment::here().json(), "rows": rows })
}
