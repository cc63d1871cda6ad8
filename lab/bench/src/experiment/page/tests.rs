//! What a page must never have in it, and what it must say.

use super::*;
use crate::experiment::{Axis, Mode, Options, Phase, Row};
use pagewell_load::measure::Better;

/// A run whose every text is `text`.
fn session(text: &str) -> Session {
    let mut session = Session::new(Options::default());
    session.begin("hsfs");
    for (mode, seconds) in [(Mode::Baseline, 2.0), (Mode::Enhanced, 1.0)] {
        let mut row = Row::new(text, mode, Phase::Cold);
        row.seconds = vec![seconds];
        session.push(row);
    }
    session.note(text);
    session.exact(true, text);
    session.verdict(false, text);
    let cases = vec![(
        text.to_owned(),
        [Some(2.0), Some(1.0), Some(3.0), Some(1.0)],
    )];
    let axis = (Axis::logarithmic(text), Better::Lower);
    session.picture(Picture::cases(text, text, axis, cases));
    let places = [(0, 512), (4096, 512)];
    session.picture(Picture::order(
        text,
        text,
        &[(Role::Baseline, text, &places)],
    ));
    session
}

fn shown(text: &str) -> String {
    let mut environment = Environment::here();
    environment.command = text.to_owned();
    (environment.load_average, environment.processors) = (9.0, 2);
    page(&environment, &session(text), text)
}

/// The page without the library, which names where it is from.
fn own(page: &str) -> String {
    assert!(page.contains(plotting::PROGRAM) && page.contains(plotting::STYLE));
    page.replace(plotting::PROGRAM, "")
        .replace(plotting::STYLE, "")
}

#[test]
fn nothing_of_a_run_is_markup() {
    let hostile = "</script><script>alert('&\"')</script>";
    let page = own(&shown(hostile));
    assert_eq!(page.matches("<script").count(), 2, "the two of its own");
    assert!(!page.contains("alert('"), "{page}");
    let escaped = "&lt;script&gt;alert(&#39;&amp;&quot;&#39;)";
    assert!(page.matches(escaped).count() > 12, "{page}");
}

#[test]
fn no_other_place_is_named_or_asked() {
    let page = own(&shown(
        "/srv/someone/pagewell-bench --html=/tmp/folder/x.html",
    ));
    for foreign in [
        "http:", "https:", "src=", "@import", "url(", "/srv", "/tmp", "folder",
    ] {
        let found = page.find(foreign).map(|at| &page[at.saturating_sub(60)..]);
        let found = found.map(|text| text.chars().take(120).collect::<String>());
        assert_eq!(found, None, "{foreign}");
    }
    assert!(page.contains("pagewell-bench --html=x.html"));
}

#[test]
fn the_verdict_comes_first_and_pictures_before_numbers() {
    let page = own(&shown("dd"));
    let parts = [
        "the one count that must hold does",
        "Of 1 limits of time 0 hold and 1 is not proven",
        "This one was: 9 processes wanted to run on 2 processors",
        "<strong>2.00 ×</strong><span>dd, dd; the report: 3.00 ×</span>",
        "data-kind=\"cases\"",
        "data-kind=\"points\"",
        "? not proven:</span> dd",
        "All numbers<",
    ];
    let places = parts.map(|part| page.find(part).ok_or(part));
    assert!(page.contains("1 count holds, 1 limit of time not proven"));
    assert!(places.iter().all(Result::is_ok), "{places:?}");
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn a_wrong_count_is_what_the_page_begins_with() {
    let mut session = session("dd");
    session.exact(false, "eight requests");
    let page = own(&page(&Environment::here(), &session, ""));
    assert!(page.contains("bad\"><span aria-hidden=\"true\">✘</span> 1 of 2 counts do not hold."));
    assert!(page.contains("<details class=\"card\" open>"));
    assert!(page.contains("✘ does not hold:</span> eight requests"));
    session.stopped(&crate::experiment::Error::Wrong("bytes of /x/y".to_owned()));
    let page = own(&super::page(&Environment::here(), &session, ""));
    assert!(page.contains("Stopped: hsfs: bytes of y"), "{page}");
}
