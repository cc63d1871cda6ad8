//! The comparison of servers: runs, tables, requirements.

use std::fs;
use std::path::Path;

use pagewell_load::compare::{
    CaseResult, Plan, compare, memory_case, prepare_directory, replace_between, rows, serve_cases,
    table, verdicts, warm,
};
use pagewell_load::measure::{Environment, SystemCalls};
use pagewell_load::report::{self, Verdict};

use super::arguments::CompareArguments;
use super::{Failure, document, with_path};

/// Compares; true when every requirement is met.
pub(super) fn run(arguments: &CompareArguments) -> Result<bool, Failure> {
    let environment = Environment::here();
    let countable = SystemCalls::of(std::process::id());
    if let Err(error) = &countable {
        eprintln!("system calls are not counted: {error}");
    }
    let plan = Plan {
        servers: arguments.servers.clone(),
        directory: arguments.directory.clone(),
        rounds: arguments.repeat,
        counts_system_calls: countable.is_ok(),
    };
    drop(countable);
    prepare_directory(&plan.directory)?;
    let mut cases = serve_cases(arguments.seconds);
    if let Some(case) = cases.first() {
        eprintln!("every server reads the whole file, every byte verified");
        warm(&plan, case)?;
    }
    cases.retain(|case| case.name.contains(&arguments.only));
    let progress = |line: &str| eprintln!("  {line}");
    let mut results = Vec::new();
    for case in &cases {
        eprintln!("{}", case.name);
        results.push(compare(&plan, case, progress)?);
    }
    let memory = memory_case(arguments.seconds);
    eprintln!("{}", memory.name);
    // Once is enough: memory does not vary as time does.
    let memory = compare(
        &Plan {
            rounds: 1,
            counts_system_calls: false,
            ..plan.clone()
        },
        &memory,
        progress,
    )?;
    let verdicts = verdicts(&plan.servers, &results, &memory);
    let all: Vec<CaseResult> = results.iter().chain([&memory]).cloned().collect();
    if let Some(path) = &arguments.json {
        let value = document(&environment, &rows(&plan.servers, &all));
        fs::write(path, format!("{value:#}\n")).map_err(|error| with_path(path, &error))?;
    }
    if let Some(path) = &arguments.markdown {
        write_part(path, &part(arguments, &environment, &plan, &all, &verdicts))?;
    }
    println!(
        "{}{}\n",
        report::machine(&environment),
        sentence(&arguments.note)
    );
    println!("{}", table(&plan.servers, &all).text());
    for verdict in &verdicts {
        print!("{}", verdict.line());
    }
    Ok(verdicts.iter().all(|verdict| verdict.pass))
}

fn part(
    arguments: &CompareArguments,
    here: &Environment,
    plan: &Plan,
    results: &[CaseResult],
    verdicts: &[Verdict],
) -> String {
    let versions: Vec<String> = plan
        .servers
        .iter()
        .map(|server| {
            format!("{} {}", server.name, server.version)
                .trim_end()
                .to_owned()
        })
        .collect();
    let own = plan
        .servers
        .first()
        .map_or("", |server| server.name.as_str());
    let mut text = format!(
        "Made by `{}`\non {},\nload average {:.1} at the start. Servers: {}.{}\n\n",
        arguments.command,
        report::machine(here),
        here.load_average,
        versions.join(", "),
        sentence(&arguments.note),
    );
    text += &format!(
        "Each server did each case {} times, in turn, {:?} each; the sequential write ends with\n\
         its file. Numbers are medians; a ratio is the median of the rounds' ratios with the\n\
         lowest and the highest. {}\n\n",
        plan.rounds,
        arguments.seconds,
        if plan.counts_system_calls {
            "System calls of the server were counted in runs of their own, by the\n\
             tracepoint raw_syscalls:sys_enter."
        } else {
            "System calls could not be counted."
        }
    );
    text += &table(&plan.servers, results).markdown();
    let (met, missed): (Vec<_>, Vec<_>) = verdicts.iter().partition(|verdict| verdict.pass);
    text += &format!(
        "\nOf what is required of {own}, {} are met and {} are not:\n\n",
        met.len(),
        missed.len()
    );
    for Verdict { pass, what, .. } in missed.into_iter().chain(met) {
        text += &format!("- {}: {what}\n", if *pass { "met" } else { "**not met**" });
    }
    text
}

fn sentence(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("\n{text}")
    }
}

fn write_part(path: &Path, part: &str) -> Result<(), Failure> {
    let before = fs::read_to_string(path).map_err(|error| with_path(path, &error))?;
    let after = replace_between(&before, "bench-serve", part)
        .ok_or_else(|| format!("{}: no lines with the marks of bench-serve", path.display()))?;
    fs::write(path, after).map_err(|error| with_path(path, &error))
}
