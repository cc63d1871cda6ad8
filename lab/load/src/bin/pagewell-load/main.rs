//! `pagewell-load`: makes NFS load, checks data, compares servers.

mod arguments;
mod comparison;

use std::process::ExitCode;

use clap::Parser;
use pagewell_load::compare::prepare_directory;
use pagewell_load::load::{run, write_pattern_file};
use pagewell_load::measure::{Environment, Row, SCHEMA};
use pagewell_load::report;
use serde_json::{Value, json};

use arguments::{Arguments, Command, RunArguments};

/// An error that ends the program; it is only printed.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(arguments) => run_once(&arguments),
        Command::Compare(arguments) => comparison::run(&arguments),
        Command::Prepare { directory } => {
            let made = prepare_directory(&directory);
            made.map(|()| true).map_err(Into::into)
        }
        Command::MakeFile { path, size } => {
            let written = write_pattern_file(&path, size);
            written
                .map(|()| true)
                .map_err(|error| with_path(&path, &error))
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("pagewell-load: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn with_path(path: &std::path::Path, error: &std::io::Error) -> Failure {
    format!("{}: {error}", path.display()).into()
}

fn run_once(arguments: &RunArguments) -> Result<bool, Failure> {
    let load = arguments.load()?;
    let result = run(&arguments.target(), &load, arguments.server_pid)?;
    if arguments.json {
        let case = load.workload.name();
        let row = report::row(case, None, &load, &[result]);
        let row = Row {
            experiment: "load",
            ..row
        };
        println!("{}", document(&Environment::here(), &[row]));
    } else {
        println!("{}", report::line(&load, &result));
    }
    Ok(true)
}

fn document(environment: &Environment, rows: &[Row]) -> Value {
    let rows: Vec<Value> = rows.iter().map(Row::json).collect();
    json!({ "schema": SCHEMA, "environment": environment.json(), "rows": rows })
}
