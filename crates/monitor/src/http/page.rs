//! The page that shows a process at work: one document with style, program and the plotting library
//! uPlot.
//!
//! Its policy has the digests of its parts (Content Security Policy Level 3): no code added on the
//! way, or in a name, runs.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use sha2::{Digest, Sha256};

use super::answer::{Whole, answer, refusal};
use crate::plotting;

const HTML: &str = include_str!("../../assets/page.html");

/// The place of each part in the page.
const STYLES: [(&str, &str); 2] = [
    ("/*style of uPlot*/", plotting::STYLE),
    ("/*style*/", include_str!("../../assets/page.css")),
];
const PROGRAMS: [(&str, &str); 2] = [
    ("/*program of uPlot*/", plotting::PROGRAM),
    ("/*program*/", include_str!("../../assets/page.js")),
];

struct Page {
    html: Bytes,
    policy: HeaderValue,
}

static PAGE: LazyLock<Option<Page>> = LazyLock::new(|| {
    let mut html = HTML.to_owned();
    for (mark, part) in STYLES.into_iter().chain(PROGRAMS) {
        html = html.replacen(mark, part, 1);
    }
    let digests = |parts: [(&str, &str); 2]| {
        let digests = parts.map(|(_, part)| STANDARD.encode(Sha256::digest(part)));
        let [first, second] = digests;
        format!("'sha256-{first}' 'sha256-{second}'")
    };
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        digests(PROGRAMS),
        digests(STYLES)
    );
    Some(Page {
        html: html.into(),
        policy: policy.try_into().ok()?,
    })
});

pub(super) fn answer_with_page() -> Response<Whole> {
    let Some(page) = &*PAGE else {
        return refusal(StatusCode::INTERNAL_SERVER_ERROR, "no policy for the page");
    };
    let mut answer = answer(
        StatusCode::OK,
        "text/html; charset=utf-8",
        page.html.clone(),
    );
    let policy = page.policy.clone();
    answer
        .headers_mut()
        .insert(header::CONTENT_SECURITY_POLICY, policy);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_names_no_other_place() {
        let page = PAGE.as_ref().unwrap();
        let html = std::str::from_utf8(&page.html).unwrap();
        for (mark, part) in STYLES.into_iter().chain(PROGRAMS) {
            assert!(HTML.contains(mark), "{mark}");
            assert!(html.contains(part), "{mark}");
        }
        for part in [HTML, STYLES[1].1, PROGRAMS[1].1] {
            // The name space of SVG is a name, not a place.
            let part = part.replace("http://www.w3.org/2000/svg", "");
            for foreign in ["http:", "https:", "src=", "@import", "url("] {
                assert!(!part.contains(foreign), "{foreign}");
            }
        }
        assert!(
            html.matches("</script>").count() == 2,
            "no part ends another"
        );
    }

    #[test]
    fn the_policy_lets_in_nothing_from_outside() {
        let answer = answer_with_page();
        let policy = answer.headers()[header::CONTENT_SECURITY_POLICY]
            .to_str()
            .unwrap();
        assert!(policy.starts_with("default-src 'none';"), "{policy}");
        assert!(
            !policy.contains("unsafe") && !policy.contains('*'),
            "{policy}"
        );
        assert_eq!(policy.matches("'sha256-").count(), 4);
    }
}
