//! The secret of `--http-token`: a client that has it may read.
//!
//! Programs send it as `Authorization: Bearer TOKEN` (RFC 6750), browsers as the password of
//! `Authorization: Basic` (RFC 7617, any user name), which they ask for.

use std::fmt;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::HeaderValue;
use sha2::{Digest, Sha256};

/// Shorter ones could be guessed.
const LENGTH_MIN: usize = 16;

/// Longer ones are not safer.
const LENGTH_MAX: usize = 512;

/// The SHA-256 of a token: comparing digests reveals nothing by its time.
pub struct Token([u8; 32]);

/// A token as sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

impl Secret {
    /// Reads the only line of a file.
    ///
    /// # Errors
    ///
    /// The file is unreadable or has no valid token.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).with_context(|| shown.to_string())?;
        // One more than the longest token with its line end.
        let read = file.take(LENGTH_MAX as u64 + 3).read_to_end(&mut bytes);
        read.with_context(|| shown.to_string())?;
        Self::of(&shown.to_string(), bytes.trim_ascii_end())
    }

    /// Takes a token; errors name it as `shown`.
    ///
    /// # Errors
    ///
    /// It is no valid token.
    pub fn of(shown: &str, token: &[u8]) -> anyhow::Result<Self> {
        ensure!(
            (LENGTH_MIN..=LENGTH_MAX).contains(&token.len()),
            "{shown}: a token has {LENGTH_MIN} to {LENGTH_MAX} characters"
        );
        let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
        ensure!(
            token.iter().all(fits),
            "{shown}: a token is one line of letters, digits and - . _ ~ + / ="
        );
        // These characters are ASCII.
        Ok(Self(String::from_utf8_lossy(token).into_owned()))
    }

    /// The value of an `Authorization` field.
    pub(super) fn field(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl Token {
    /// Reads the only line of a file.
    ///
    /// # Errors
    ///
    /// Those of [`Secret::read`].
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let secret = Secret::read(path)?;
        Ok(Self(Sha256::digest(secret.0.as_bytes()).into()))
    }

    /// Whether an `Authorization` field has it.
    pub(super) fn is_in(&self, field: &HeaderValue) -> bool {
        let field = field.as_bytes();
        let Some(space) = field.iter().position(|byte| *byte == b' ') else {
            return false;
        };
        let (scheme, rest) = field.split_at(space);
        let rest = rest.trim_ascii();
        if scheme.eq_ignore_ascii_case(b"bearer") {
            return self.is(rest);
        }
        let decoded = STANDARD.decode(rest).unwrap_or_default();
        let password = decoded.iter().position(|byte| *byte == b':');
        scheme.eq_ignore_ascii_case(b"basic")
            && password.is_some_and(|colon| self.is(&decoded[colon + 1..]))
    }

    fn is(&self, presented: &[u8]) -> bool {
        let digest: [u8; 32] = Sha256::digest(presented).into();
        digest == self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> anyhow::Result<Token> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Token::read(file.path())
    }

    #[test]
    fn a_token_is_one_line_of_a_fair_length() {
        let longest = "a".repeat(LENGTH_MAX);
        for good in [
            "0123456789abcdef",
            "0123456789-._~+/\r\n",
            &(longest.clone() + "\n"),
        ] {
            assert!(of(good).is_ok(), "{good}");
        }
        let long = longest + "a";
        for bad in [
            "",
            "\n",
            "0123456789abcde\n",
            "0123456789abcdef\nb",
            "0123456789abcdé",
            &long,
        ] {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert!(Token::read(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn a_secret_is_not_shown_and_opens() {
        let secret = Secret::of("a variable", b"0123456789abcdef").unwrap();
        assert!(!format!("{secret:?}").contains("0123"));
        let field = HeaderValue::from_str(&secret.field()).unwrap();
        assert!(of("0123456789abcdef").unwrap().is_in(&field));
        let error = Secret::of("a variable", b"0123456789abcdef\r\nX: y").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("a variable: a token is one line")
        );
    }

    #[test]
    fn programs_and_browsers_can_give_it() {
        let token = of("0123456789abcdef").unwrap();
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        for (field, is_in) in [
            ("Bearer 0123456789abcdef".to_owned(), true),
            ("bearer  0123456789abcdef".to_owned(), true),
            (basic("someone:0123456789abcdef"), true),
            (basic(":0123456789abcdef"), true),
            (basic("0123456789abcdef"), false),
            (basic("a:0123456789abcde"), false),
            ("Bearer 0123456789abcdeF".to_owned(), false),
            ("Bearer".to_owned(), false),
            ("Bearer ".to_owned(), false),
            ("Basic ???".to_owned(), false),
            ("0123456789abcdef".to_owned(), false),
            (String::new(), false),
        ] {
            let value = HeaderValue::from_str(&field).unwrap();
            assert_eq!(token.is_in(&value), is_in, "{field}");
        }
    }
}
