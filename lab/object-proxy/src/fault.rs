//! What happens to one request, and how a script writes it.

use std::str::FromStr;
use std::time::Duration;

use pagewell_base::{duration, size};

/// What happens to a request or to its reply. Counts of bytes are of bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `delay=50ms`: it goes on so much later.
    Delay(Duration),
    /// `status=503`, `status=503,retry-after=2`: it is answered with this status, and the server
    /// never sees it.
    Status {
        /// Any.
        status: u16,
        /// The field `Retry-After`.
        retry_after_seconds: Option<u64>,
    },
    /// `redirect=307,LOCATION`: it is answered with this status and place, in which `{target}`
    /// stands for the target of the request; the server never sees it.
    Redirect {
        /// 301, 302, 307 or 308, or any.
        status: u16,
        /// The field `Location`.
        location: String,
    },
    /// `wait`: it goes on when [`crate::Proxy::release`] says so.
    Wait,
    /// `hang`: no answer, as long as the client waits; the server never sees it.
    Hang,
    /// `reset=1m`: the connection is reset behind so many bytes of the reply.
    ResetAt(u64),
    /// `close=1m`: the connection is closed behind so many bytes of the reply.
    CloseAt(u64),
    /// `stall=1m`: nothing more comes behind so many bytes of the reply.
    StallAt(u64),
    /// `hold=1m`: the reply waits behind so many bytes for [`crate::Proxy::release`].
    HoldAt(u64),
    /// `short=1000`: the reply lacks its last bytes, and its `Content-Length` says so.
    ShortBy(u64),
    /// `content-range=-10`: both ends of `Content-Range` are others than those of the bytes.
    ContentRangeOffBy(i64),
    /// `no-etag`: the reply has none.
    NoEtag,
    /// `weak-etag`: that of the reply is weak.
    WeakEtag,
    /// `gzip`: the reply is compressed, whatever the client accepts.
    Gzip,
    /// `whole`: the server is not asked for a range, and answers with the whole object.
    IgnoreRange,
    /// `lost-reply`: the server has answered, and the connection is reset before the answer.
    LostReply,
    /// `applied=500`: the server has answered, and the client gets this status.
    AppliedThen(u16),
    /// `cut-upload=1m`: both connections end behind so many bytes of the request.
    CutUploadAt(u64),
    /// `flip-upload=1m`: the byte behind so many of the request is another.
    FlipUploadAt(u64),
}

fn number<T: FromStr>(text: &str, word: &str) -> Result<T, String> {
    let number = text.parse();
    number.map_err(|_| format!("'{word}': '{text}' is no number that fits"))
}

fn status(value: &str, word: &str) -> Result<Fault, String> {
    let (status, more) = match value.split_once(',') {
        Some((status, more)) => (status, Some(more)),
        None => (value, None),
    };
    let seconds = more.map(|more| {
        let seconds = more.strip_prefix("retry-after=");
        number(
            seconds.ok_or_else(|| format!("'{word}': only retry-after=SECONDS may follow"))?,
            word,
        )
    });
    Ok(Fault::Status {
        status: number(status, word)?,
        retry_after_seconds: seconds.transpose()?,
    })
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let bytes = || size::parse(value).map_err(|error| format!("'{word}': {error}"));
        Ok(match name {
            "delay" => {
                let time = duration::parse(value);
                Self::Delay(time.map_err(|error| format!("'{word}': {error}"))?)
            }
            "status" => status(value, word)?,
            "redirect" => {
                let parts = value.split_once(',');
                let (status, location) =
                    parts.ok_or_else(|| format!("'{word}': redirect=STATUS,LOCATION"))?;
                Self::Redirect {
                    status: number(status, word)?,
                    location: location.to_owned(),
                }
            }
            "wait" => Self::Wait,
            "hang" => Self::Hang,
            "reset" => Self::ResetAt(bytes()?),
            "close" => Self::CloseAt(bytes()?),
            "stall" => Self::StallAt(bytes()?),
            "hold" => Self::HoldAt(bytes()?),
            "short" => Self::ShortBy(bytes()?),
            "content-range" => Self::ContentRangeOffBy(number(value, word)?),
            "no-etag" => Self::NoEtag,
            "weak-etag" => Self::WeakEtag,
            "gzip" => Self::Gzip,
            "whole" => Self::IgnoreRange,
            "lost-reply" => Self::LostReply,
            "applied" => Self::AppliedThen(number(value, word)?),
            "cut-upload" => Self::CutUploadAt(bytes()?),
            "flip-upload" => Self::FlipUploadAt(bytes()?),
            _ => return Err(format!("'{word}' is no fault that is known")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read() {
        for (text, fault) in [
            ("delay=50ms", Fault::Delay(Duration::from_millis(50))),
            (
                "status=503,retry-after=2",
                Fault::Status {
                    status: 503,
                    retry_after_seconds: Some(2),
                },
            ),
            (
                "redirect=307,http://h{target}",
                Fault::Redirect {
                    status: 307,
                    location: "http://h{target}".to_owned(),
                },
            ),
            ("reset=1m", Fault::ResetAt(1 << 20)),
            ("content-range=-10", Fault::ContentRangeOffBy(-10)),
            ("lost-reply", Fault::LostReply),
        ] {
            assert_eq!(text.parse(), Ok(fault), "{text}");
        }
    }

    #[test]
    fn what_is_no_fault_is_named() {
        for text in [
            "",
            "explode",
            "status=70000",
            "status=503,after=2",
            "redirect=307",
            "reset=x",
            "delay=x",
        ] {
            let error = text.parse::<Fault>().unwrap_err();
            assert!(error.starts_with(&format!("'{text}'")), "{error}");
        }
    }
}
