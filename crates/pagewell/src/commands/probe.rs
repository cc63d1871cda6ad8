//! `pagewell probe`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use pagewell_base::size;
use pagewell_object_client::{Answer, Class, Location, Options, Question, Report};
use pagewell_source_object::KeptProbe;
use serde::Serialize;

use crate::escape;
use crate::failure::{self, Outcome, one_line, usage};
use crate::output;
use crate::state;
use crate::writing_arguments::kept_probes;

/// Say what an object store or a web server does, in at most 30 seconds.
///
/// A bucket is asked by objects below `.pagewell-probe-` and a random number, which are removed at
/// the end: what it makes of conditions, one by one and raced, of copies, hashes and names. A web
/// server, and a bucket with --read-only, is only read.
///
/// What a bucket answers is kept: mounts and servers of this user believe it for 30 days before
/// they ask by themselves.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewell probe s3://bucket                    all of it, by objects that are removed again
  pagewell probe --read-only az://photos/2026   nothing is changed
  pagewell probe --json https://host/file.iso   for programs")]
pub(crate) struct ProbeArguments {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Ask nothing that changes the bucket
    #[arg(long)]
    read_only: bool,
    /// Keep the answers in this state directory, for a server with the same one
    /// [default: /var/lib/pagewell for root, else $XDG_STATE_HOME/pagewell or
    /// ~/.local/state/pagewell]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    state_dir: Option<PathBuf>,
    /// s3://BUCKET[/PREFIX], az://CONTAINER[/PREFIX], gs://BUCKET[/PREFIX], http://HOST/PATH or
    /// https://HOST/PATH
    #[arg(value_name = "URL", value_hint = clap::ValueHint::Url)]
    url: String,
}

#[derive(Serialize)]
struct ReportJson<'a> {
    place: &'a str,
    class: &'static str,
    answers: Vec<AnswerJson<'a>>,
    latency_seconds: Option<f64>,
    bytes_per_second: Option<f64>,
    left_behind: &'a [String],
}

#[derive(Serialize)]
struct AnswerJson<'a> {
    question: &'static str,
    answer: &'static str,
    /// What was seen, or why it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

pub(crate) fn run(arguments: &ProbeArguments) -> anyhow::Result<Outcome> {
    let url = &arguments.url;
    let is_known = pagewell_object_client::PROTOCOLS.iter();
    if !is_known.clone().any(|protocol| url.starts_with(protocol)) {
        let known = is_known.copied().collect::<Vec<_>>().join(", ");
        return Err(usage(format!("{url}: a URL begins with {known}")));
    }
    let shown = url.split('?').next().unwrap_or(url).to_owned();
    Location::parse(url, &mut Options::default())
        .map_err(|error| usage(format!("{shown}: {}", error.behind(&shown))))?;
    let options = Options::default();
    let report = pagewell_object_client::probe(url, &options, arguments.read_only);
    let report = report.map_err(|error| anyhow!("{shown}: {}", error.behind(&shown)))?;
    if arguments.json {
        output::document(&json(&report))?;
    } else {
        output::print(text(&report).as_bytes())?;
    }
    for key in &report.left_behind {
        failure::report(&format!("{key}: left behind, remove it"));
    }
    if let Err(error) = keep(arguments, &report) {
        failure::report(&one_line(&error));
    }
    Ok(Outcome::Done)
}

fn keep(arguments: &ProbeArguments, report: &Report) -> anyhow::Result<()> {
    let usual = state::base_directory;
    let Some(directory) = arguments.state_dir.clone().or_else(usual) else {
        return Ok(());
    };
    let folder = kept_probes(&directory);
    let kept = KeptProbe::keep(&arguments.url, report, &folder);
    kept.with_context(|| format!("{}: the answers are not kept", folder.display()))?;
    Ok(())
}

/// A question in words, and what follows from both answers.
struct Words {
    asks: &'static str,
    yes: &'static str,
    no: &'static str,
}

const fn words(asks: &'static str, yes: &'static str, no: &'static str) -> Words {
    Words { asks, yes, no }
}

fn words_of(question: Question) -> Words {
    match question {
        Question::Lists => words(
            "lists its objects",
            "Directories are shown.",
            "Only objects whose address is known can be read.",
        ),
        Question::StrongTag => words(
            "names versions by strong ETags",
            "Every byte that is read belongs to one version.",
            "A change within a second that keeps the length is not seen.",
        ),
        Question::Ranges => words(
            "sends ranges",
            "What is read is fetched, and no more.",
            "Pagewell refuses it: each read would fetch the whole file.",
        ),
        Question::StaleRead => words(
            "refuses to read a version that is gone",
            "A changed object is seen before its bytes are sent.",
            "Pagewell compares each answer itself, and reads one version all the same.",
        ),
        Question::ListedTag => words(
            "lists the ETag of HEAD",
            "A listing tells which objects have changed.",
            "An object has to be asked for by itself to see a change.",
        ),
        Question::Change => words(
            "lets these keys write",
            "Objects can be made here.",
            "It is to be read; nothing else was asked.",
        ),
        _ => words_of_change(question),
    }
}

fn words_of_change(question: Question) -> Words {
    match question {
        Question::Create => words(
            "refuses a second create",
            "Two writers that make one name notice it.",
            "A new object can replace another one unseen.",
        ),
        Question::Update => words(
            "refuses a change of an old version",
            "Two writers that change one object notice it.",
            "A change can replace a newer one unseen.",
        ),
        Question::Race => words(
            "lets one of 8 creates at once win",
            "The refusal holds for writers at the same moment, too.",
            "Writers at the same moment replace each other unseen.",
        ),
        Question::Complete => words(
            "refuses an upload for an old version",
            "Large objects are as safe as small ones.",
            "A large object can replace a newer one unseen.",
        ),
        Question::Delete => words(
            "refuses a delete of an old version",
            "A newer object is not deleted for an older one.",
            "A delete can take a change of another writer with it.",
        ),
        Question::CopyPart => words(
            "copies parts inside itself",
            "A change in a large object need not send all of it.",
            "A change in a large object sends all of it.",
        ),
        Question::StaleCopy => words(
            "refuses to copy an old version",
            "A copied part belongs to the version that was meant.",
            "A copied part has to be compared before it is trusted.",
        ),
        Question::WrongHash => words(
            "refuses a body with a wrong MD5",
            "A body that is damaged on its way is not kept.",
            "A body that is damaged on its way can be kept.",
        ),
        Question::WrongSignedHash => words(
            "refuses a body with a wrong SHA-256",
            "The signature protects a body: MD5, which takes longer, is left out.",
            "MD5 goes along with each body.",
        ),
        Question::Marker => words(
            "keeps and lists an object 'dir/'",
            "Empty directories can be kept.",
            "An empty directory cannot be kept.",
        ),
        _ => words(
            "has 'a' beside 'a/b'",
            "A name can be a file and a folder at once.",
            "A name is a file or a folder, as in a file system.",
        ),
    }
}

/// What Pagewell does with it.
fn consequence(report: &Report) -> &'static str {
    let ignores_ranges = report
        .answers
        .iter()
        .any(|(question, answer)| *question == Question::Ranges && matches!(answer, Answer::No(_)));
    match report.class {
        Class::Guarded => {
            "No writer here can replace another one's change unseen. Pagewell reads and writes it."
        }
        Class::GuardedButDeletes => {
            "No change is replaced unseen, but one can be deleted so. Pagewell reads and writes \
             it, and looks before it deletes."
        }
        Class::Unguarded => {
            "Writers can lose each other's changes here, and no client can prevent it. Pagewell \
             reads it, and writes it only with --object-writes unguarded."
        }
        Class::WeakWeb if ignores_ranges => "Pagewell refuses to read parts of it.",
        Class::WeakWeb => {
            "Pagewell reads it, and tells versions apart by the time of the change and the length."
        }
        Class::ReadOnly => {
            "Pagewell reads it, each byte of one version; changes were denied or not asked for."
        }
        Class::Unknown => {
            "What decides could not be asked; the lines above say why. Pagewell reads what it can."
        }
    }
}

fn parts(answer: &Answer) -> (&'static str, Option<&str>) {
    match answer {
        Answer::Yes => ("yes", None),
        Answer::No(reason) => ("no", Some(reason)),
        Answer::Unknown(reason) => ("unknown", Some(reason)),
    }
}

fn json(report: &Report) -> ReportJson<'_> {
    let answers = report.answers.iter().map(|(question, answer)| {
        let (answer, reason) = parts(answer);
        AnswerJson {
            question: question.name(),
            answer,
            reason,
        }
    });
    ReportJson {
        place: &report.place,
        class: report.class.name(),
        answers: answers.collect(),
        latency_seconds: report.latency.as_ref().map(Duration::as_secs_f64),
        bytes_per_second: report.bytes_per_second,
        left_behind: &report.left_behind,
    }
}

fn text(report: &Report) -> String {
    let mut text = format!("{}\n", escape::text(report.place.as_bytes()));
    let mut line = |asks: &str, answer: &str, rest: &str| {
        let rest = escape::text(rest.as_bytes());
        text += &format!("  {asks:38}  {answer:7}  {rest}\n");
    };
    for (question, answer) in &report.answers {
        let words = words_of(*question);
        let (shown, reason) = parts(answer);
        let rest = match (answer, reason) {
            (Answer::No(_), Some(reason)) => format!("{} ({reason})", words.no),
            (_, Some(reason)) => reason.to_owned(),
            (_, None) => words.yes.to_owned(),
        };
        line(words.asks, shown, &rest);
    }
    if let Some(latency) = report.latency {
        let milliseconds = format!("{:.2} ms", latency.as_secs_f64() * 1e3);
        line("answers within", &milliseconds, "The median of some HEADs.");
    }
    if let Some(speed) = report.bytes_per_second {
        let speed = format!("{}/s", size::brief(speed as u64));
        line("sends", &speed, "One GET, on one connection.");
    }
    let (class, meaning) = (report.class.name(), consequence(report));
    text + &format!("class: {class}\n  {meaning}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(class: Class, answers: Vec<(Question, Answer)>) -> Report {
        Report {
            place: "s3://bucket at http://127.0.0.1:9000".to_owned(),
            answers,
            class,
            latency: Some(Duration::from_micros(1_500)),
            bytes_per_second: Some(2.5e6),
            left_behind: Vec::new(),
        }
    }

    #[test]
    fn each_answer_is_a_line_with_what_follows() {
        let no = Answer::No("the list has\nno ETag".to_owned());
        let unknown = Answer::Unknown("too late".to_owned());
        let answers = vec![
            (Question::Lists, Answer::Yes),
            (Question::ListedTag, no),
            (Question::Race, unknown),
        ];
        let text = text(&report(Class::Guarded, answers));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 8, "{text}");
        assert!(lines[1].contains(" yes ") && lines[1].ends_with("Directories are shown."));
        assert!(lines[2].contains(" no ") && lines[2].ends_with("(the list has\\nno ETag)"));
        assert!(lines[3].contains(" unknown ") && lines[3].ends_with("too late"));
        assert!(lines[4].contains("1.50 ms"), "{text}");
        assert_eq!(lines[6], "class: guarded");
        assert!(lines[7].contains("reads and writes"), "{text}");
    }

    #[test]
    fn programs_get_the_same() {
        let no = Answer::No("no tag".to_owned());
        let report = report(Class::WeakWeb, vec![(Question::StrongTag, no)]);
        let json = serde_json::to_value(json(&report)).unwrap();
        assert_eq!(json["class"], "weak web");
        assert_eq!(json["answers"][0]["question"], "strong_tag");
        assert_eq!(json["answers"][0]["answer"], "no");
        assert_eq!(json["answers"][0]["reason"], "no tag");
        assert_eq!(json["latency_seconds"], 0.0015);
    }
}
