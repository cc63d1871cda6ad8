//! Text of a run, fit for a page that is given to others.

/// Text that means itself in HTML, also in attributes, and names no folder of this machine.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in portable(text).chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            other => escaped.push(other),
        }
    }
    escaped
}

/// Text without the folders of this machine: of an absolute path the last part stays.
fn portable(text: &str) -> String {
    let word = |word: &str| {
        let is_before = |before: &str| before.ends_with(['=', ':', '(', '"', '\'', '[', ',']);
        let start = word.match_indices('/').map(|(at, _)| at);
        let mut start = start.filter(|at| *at == 0 || is_before(&word[..*at]));
        match start.next().and_then(|at| Some((at, word.rfind('/')?))) {
            Some((first, last)) => format!("{}{}", &word[..first], &word[last + 1..]),
            None => word.to_owned(),
        }
    };
    let lines = text.split('\n').map(|line| {
        let words: Vec<String> = line.split(' ').map(word).collect();
        words.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_machine_stay_behind() {
        for (text, expected) in [
            (
                "/usr/a/pagewell-bench hsfs --work=/tmp/b/c",
                "pagewell-bench hsfs --work=c",
            ),
            ("a/b 1/2 read (/dev/sda)", "a/b 1/2 read (sda)"),
            (
                "first /x/y\nsecond  iso:/x/z.iso",
                "first y\nsecond  iso:z.iso",
            ),
            ("1/2:/x/y and 30 MB/s", "1/2:y and 30 MB/s"),
        ] {
            assert_eq!(portable(text), expected);
        }
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(escape("<a b='&\">"), "&lt;a b=&#39;&amp;&quot;&gt;");
        assert_eq!(escape("\"/srv/x/y\""), "&quot;y&quot;");
    }
}
