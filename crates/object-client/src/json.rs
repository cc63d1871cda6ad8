//! JSON of stores: errors, and fields of objects that are there or not.

use serde_json::Value;

use crate::xml::Said;

/// What an answer of failure says: the reason of its first error, and its text.
pub(crate) fn error(body: &[u8]) -> Option<Said> {
    if !body.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let answer: Value = serde_json::from_slice(body).ok()?;
    let error = answer.get("error")?;
    let first = error.get("errors").and_then(|errors| errors.get(0));
    let reason = first.map_or("", |first| text_of(first, "reason"));
    let status = text_of(error, "status");
    let code = if reason.is_empty() { status } else { reason };
    Some(Said {
        code: code.to_owned(),
        message: text_of(error, "message").trim().to_owned(),
        region: None,
    })
}

/// A field that is text; empty without.
pub(crate) fn text_of<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_a_reason_and_a_text() {
        let body = br#"{"error": {"code": 412, "message": "At least one\n", "errors": [
            {"domain": "global", "reason": "conditionNotMet", "message": "x"}]}}"#;
        let said = error(body).expect("an error");
        assert_eq!(
            (said.code.as_str(), said.message.as_str()),
            ("conditionNotMet", "At least one")
        );
        let short = br#"{"error": {"code": 403, "message": "no", "status": "PERMISSION_DENIED"}}"#;
        assert_eq!(error(short).expect("an error").code, "PERMISSION_DENIED");
        for body in [&b"<html>"[..], b"{}", b"{", b"", b"[]", b"{\"error\": "] {
            assert!(error(body).is_none());
        }
        assert_eq!(error(b"{\"error\": 7}").expect("an error").code, "");
    }

    #[test]
    fn any_body_is_an_error_or_none() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let _ = error(bytes);
            let text = String::from_utf8_lossy(bytes);
            let _ = error(format!("{{\"error\": {text}}}").as_bytes());
        });
    }
}
