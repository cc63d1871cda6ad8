//! The experiments by their names on the command line.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use pagewell_bench::experiment::Experiment;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Experiments(pub(crate) Vec<Experiment>);

/// The names of all experiments, each with a line of help.
pub(crate) fn experiments() -> impl TypedValueParser<Value = Experiments> {
    let names = Experiment::ALL
        .iter()
        .map(|one| PossibleValue::new(one.name()).help(one.about()));
    let all = PossibleValue::new("all").help("All of them, one after the other.");
    PossibleValuesParser::new(names.chain([all])).try_map(|text| parse_experiments(&text))
}

fn parse_experiments(text: &str) -> Result<Experiments, String> {
    if text == "all" {
        return Ok(Experiments(Experiment::ALL.to_vec()));
    }
    let found = Experiment::named(text).map(|one| Experiments(vec![one]));
    found.ok_or_else(|| {
        let names: Vec<_> = Experiment::ALL.iter().map(|one| one.name()).collect();
        format!("there are {} and all", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_have_names() {
        let all = parse_experiments("all").unwrap();
        assert_eq!(all.0, Experiment::ALL);
        assert_eq!(parse_experiments("hsfs").unwrap().0, [Experiment::Hsfs]);
        let names = all
            .0
            .iter()
            .map(|one| one.name())
            .chain(["all", "compare", "read"]);
        assert!(
            names.eq(pagewell::command_line::BENCH_WORDS),
            "shells complete others"
        );
        let error = parse_experiments("hfs").unwrap_err();
        assert!(error.contains("hsfs") && error.contains("all"), "{error}");
    }
}
