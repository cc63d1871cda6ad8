//! JSON of stores: errors, and fields of objects that are there or not.

use serde_json::Value;

use crate::xml::Said;

/// The reason and the text of the first error in a reply of failure.
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

pub(crate) fn text_of<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or("")
}

/// A number, also one in text, as 64 bits are written.
pub(crate) fn number_of(object: &Value, name: &str) -> Option<u64> {
    let field = object.get(name)?;
    field
        .as_u64()
        .or_else(|| field.as_str()?.trim().parse().ok())
}

/// The elements of a list; none without it.
pub(crate) fn list_of<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    let list = object.get(name).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
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
    fn numbers_are_written_in_two_ways() {
        let object = serde_json::json!({"a": "18446744073709551615", "b": 7, "c": -1, "d": "x"});
        assert_eq!(number_of(&object, "a"), Some(u64::MAX));
        assert_eq!(number_of(&object, "b"), Some(7));
        for name in ["c", "d", "e"] {
            assert_eq!(number_of(&object, name), None, "{name}");
        }
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
