//! The settings in force, as a configuration file with the origin of each value, or as JSON.

use serde_json::{Value, json};

use super::picker::{Entry, Section};

/// Where the remarks begin, if the values leave room.
const REMARK_COLUMN: usize = 44;

/// The settings as a file with remarks: reading it again gives the same settings.
pub(crate) fn text(entries: &[Entry]) -> String {
    let mut text = String::new();
    let mut section = None;
    for entry in entries {
        if section != Some(&entry.section) {
            let gap = if section.is_some() { "\n" } else { "" };
            text.push_str(&format!("{gap}{}\n", heading(&entry.section)));
            section = Some(&entry.section);
        }
        let line = match &entry.value {
            Value::Null => format!("# {} is not set", entry.key),
            value => format!("{} = {value}", entry.key),
        };
        text.push_str(&format!("{line:REMARK_COLUMN$} # {}\n", entry.origin));
    }
    text
}

fn heading(section: &Section) -> &'static str {
    match section {
        Section::Server => "[server]",
        Section::Log => "[log]",
        Section::Limits => "[limits]",
        Section::Export(_) => "[[export]]",
        Section::Mount(_) => "[[mount]]",
    }
}

/// The same for programs.
pub(crate) fn document(entries: &[Entry]) -> Value {
    let one = |entry: &Entry| {
        json!({
            "table": heading(&entry.section).trim_matches(['[', ']']),
            "export": entry.section.export(),
            "mount": entry.section.mount(),
            "key": entry.key,
            "value": entry.value,
            "from": entry.origin.to_string(),
        })
    };
    json!({ "schema": 1, "settings": entries.iter().map(one).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::arguments::ServeArguments;
    use crate::configuration::file::ConfigurationFile;
    use crate::configuration::settings::Settings;
    use clap::Parser;
    use std::path::Path;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeArguments,
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        let words = [
            "pagewell",
            "--threads",
            "7",
            "--allow",
            "10.0.0.0/8",
            "--log",
            "warn,nfsd=debug",
            "--slow",
            "1500us",
            "--audit",
            "/var/log/changes",
            "--sandbox-allow",
            "/srv",
            "/a=ram:1m",
        ];
        let arguments = Line::try_parse_from(words).unwrap().serve;
        let settings = Settings::resolve(&arguments, None).unwrap();
        let shown = text(&settings.entries);
        let file = ConfigurationFile::parse(Path::new("/f"), &shown).unwrap();
        let words = ["pagewell", "--config", "/f"];
        let arguments = Line::try_parse_from(words).unwrap().serve;
        let again = Settings::resolve(&arguments, Some(&file)).unwrap();
        let values = |settings: &Settings| -> Vec<_> {
            let entries = settings.entries.iter();
            let known = entries.filter(|entry| !entry.value.is_null());
            known
                .map(|entry| (entry.section.clone(), entry.key, entry.value.clone()))
                .collect()
        };
        assert_eq!(values(&settings), values(&again), "{shown}");
        assert_eq!(document(&settings.entries)["settings"][1]["value"], 7);
    }
}
