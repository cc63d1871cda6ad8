//! Timeouts of blocking sockets in words.
//!
//! A socket with a timeout reports its end as EAGAIN, and a connect as EINPROGRESS (connect(2),
//! socket(7)): "Resource temporarily unavailable", "Operation now in progress".

use std::io;
use std::time::Duration;

use rustix::io::Errno;

/// Says which `peer` took longer than `timeout`; other errors stay.
#[must_use]
pub fn in_words(error: io::Error, peer: &str, timeout: Duration) -> io::Error {
    use io::ErrorKind::{TimedOut, WouldBlock};
    let is_late = matches!(error.kind(), TimedOut | WouldBlock)
        || Errno::from_io_error(&error) == Some(Errno::INPROGRESS);
    if is_late {
        let text = format!("{peer} did not answer within {timeout:?}");
        return io::Error::new(TimedOut, text);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_timeout_is_said_otherwise() {
        let said = |errno: Errno| in_words(errno.into(), "it", Duration::from_secs(5));
        for late in [Errno::AGAIN, Errno::INPROGRESS, Errno::TIMEDOUT] {
            assert_eq!(said(late).kind(), io::ErrorKind::TimedOut);
            assert_eq!(said(late).to_string(), "it did not answer within 5s");
        }
        assert_eq!(
            Errno::from_io_error(&said(Errno::CONNREFUSED)),
            Some(Errno::CONNREFUSED)
        );
    }
}
