//! A whole result for programs.

use pagewell_load::measure::{Environment, SCHEMA};
use serde_json::{Value, json};

use super::session::Session;

/// The document of a run: `schema`, `environment`, `rows`, `verdicts`, `notes` and `failures`.
pub fn document(environment: &Environment, session: &Session) -> Value {
    let rows: Vec<Value> = session.rows().iter().map(super::Row::json).collect();
    let verdicts = session.verdicts().iter().map(|verdict| {
        json!({
            "experiment": verdict.experiment,
            "pass": verdict.pass,
            "outcome": verdict.outcome().word().to_lowercase(),
            "what": verdict.what,
        })
    });
    let notes = session.notes();
    let notes = notes.map(|(name, text)| json!({ "experiment": name, "text": text }));
    json!({
        "schema": SCHEMA,
        "environment": environment.json(),
        "rows": rows,
        "verdicts": verdicts.collect::<Vec<_>>(),
        "notes": notes.collect::<Vec<_>>(),
        "failures": session.failures(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Mode, Options, Phase, Row};
    use pagewell_load::measure::{Figure, RUNS_MIN, compare_documents};

    fn document_of(seconds: &[f64], rates: &[f64]) -> Value {
        let mut session = Session::new(Options::default());
        session.begin("hsfs");
        let mut row = Row::new("dd", Mode::Enhanced, Phase::Cold);
        row.seconds = seconds.to_vec();
        session.push(row.clone());
        row.case = "random".to_owned();
        row.figure = Some(Figure::rate("ops/s", rates.to_vec()));
        session.push(row);
        document(&Environment::here(), &session)
    }

    /// A document of twenty cases that take `times` what they take, each a little else.
    fn many(times: f64, seed: u32) -> Value {
        let mut session = Session::new(Options::default());
        session.begin("hsfs");
        for case in 0..20_u32 {
            let mut row = Row::new(format!("case {case}"), Mode::Enhanced, Phase::Cold);
            let noise = f64::from((case * 7 + seed * 13) % 11) / 11.0 - 0.5;
            let seconds = if case == 3 { times } else { 1.0 };
            row.seconds = vec![seconds * (1.0 + noise * 0.06)];
            session.push(row);
        }
        document(&Environment::here(), &session)
    }

    #[test]
    fn the_same_run_proves_nothing() {
        let run = [document_of(&[1.0, 1.1, 0.9], &[10.0, 11.0, 9.0])];
        let found = compare_documents(&run, &run).unwrap();
        assert_eq!((found.proven, found.worse), (0, 0));
        assert!(found.text.contains("too few runs"), "{}", found.text);
    }

    /// Five runs of one program.
    fn runs(times: f64, from: u32) -> Vec<Value> {
        (from..from + 5).map(|seed| many(times, seed)).collect()
    }

    #[test]
    fn one_case_among_many_that_changed_is_found() {
        for (times, worse) in [(1.5, 1), (1.1, 1), (0.9, 0), (0.6, 0)] {
            let found = compare_documents(&runs(1.0, 0), &runs(times, 5)).unwrap();
            assert_eq!((found.proven, found.worse), (1, worse), "{}", found.text);
        }
        let found = compare_documents(&runs(1.0, 0), &runs(1.0, 5)).unwrap();
        assert_eq!(found.proven, 0, "{}", found.text);
    }

    #[test]
    fn few_runs_prove_nothing_and_say_so() {
        let (before, after) = (runs(1.0, 0), runs(9.0, 5));
        let few = RUNS_MIN - 1;
        for (before, after) in [(&before[..few], &after[..]), (&before[..], &after[..few])] {
            let found = compare_documents(before, after).unwrap();
            assert_eq!(found.proven, 0, "{}", found.text);
            assert!(found.text.contains("prove nothing"), "{}", found.text);
        }
    }

    #[test]
    fn rates_are_worse_when_they_fall() {
        let runs = |seconds: f64, rate: f64| -> Vec<Value> {
            let noise = [1.0, 1.01, 0.99, 1.02];
            noise
                .map(|n| document_of(&[seconds * n], &[rate * n]))
                .into()
        };
        let found = compare_documents(&runs(1.0, 10.0), &runs(2.0, 5.0)).unwrap();
        assert_eq!((found.proven, found.worse), (2, 2), "{}", found.text);
        let back = compare_documents(&runs(2.0, 5.0), &runs(1.0, 10.0)).unwrap();
        assert_eq!((back.proven, back.worse), (2, 0), "{}", back.text);
    }

    #[test]
    fn a_program_that_broke_is_worse() {
        let good = || document_of(&[1.0], &[1.0]);
        let worse = |after: Value| compare_documents(&[good()], &[after]).unwrap().worse;
        assert_eq!(
            worse(document_of(&[1.0], &[0.0])),
            1,
            "it does nothing any more"
        );
        let mut stopped = good();
        stopped["rows"].as_array_mut().unwrap().pop();
        assert_eq!(worse(stopped), 1, "it did not come so far");
        let mut failed = good();
        failed["failures"] = serde_json::json!(["hsfs: wrong bytes"]);
        assert_eq!(worse(failed), 1);
        let nothing = document_of(&[1.0], &[0.0]);
        let both = compare_documents(
            std::slice::from_ref(&nothing),
            std::slice::from_ref(&nothing),
        );
        assert_eq!(both.unwrap().worse, 0, "as before");
    }

    #[test]
    fn other_documents_are_refused_and_odd_rows_are_not() {
        let good = [document_of(&[1.0], &[1.0])];
        let other = [serde_json::json!({ "schema": 99, "rows": [] })];
        let error = compare_documents(&good, &other).unwrap_err();
        assert!(error.contains("second"), "{error}");
        let odd = [serde_json::json!({ "schema": 1, "rows": [7, { "case": "dd" }, {}] })];
        let found = compare_documents(&odd, &good).unwrap();
        assert!(found.text.contains("only in the second"), "{}", found.text);
        assert!(found.text.contains("same machine"), "{}", found.text);
    }
}
