//! A generated part inside a written document.

/// `text` with everything between the lines `<!-- NAME begin -->` and `<!-- NAME end -->` replaced;
/// `None` without the two lines in this order.
pub fn replace_between(text: &str, name: &str, part: &str) -> Option<String> {
    let begin = format!("<!-- {name} begin -->");
    let end = format!("<!-- {name} end -->");
    let start = text.find(&begin)? + begin.len();
    let length = text.get(start..)?.find(&end)?;
    let (before, after) = (text.get(..start)?, text.get(start + length..)?);
    Some(format!("{before}\n{}\n{after}", part.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let text = "a\n<!-- t begin -->\nold\n<!-- t end -->\nb\n";
        let new = replace_between(text, "t", "new\n").unwrap();
        assert_eq!(new, "a\n<!-- t begin -->\nnew\n<!-- t end -->\nb\n");
        assert_eq!(
            replace_between(&new, "t", "new").as_deref(),
            Some(new.as_str())
        );
        assert_eq!(replace_between(text, "other", "new"), None);
        assert_eq!(
            replace_between("<!-- t end --><!-- t begin -->", "t", "new"),
            None
        );
    }
}
