//! What opens a store for a while: keys or a token.
//!
//! One look serves all callers that want it at a time; what it finds is kept until shortly before
//! its end, or to its end where no other is found. After that a request is tried again as long as
//! others that fail, since the source may only be out of reach. A refusal by the store ends its use
//! at once. A look that failed stands for all callers for [`FAILED_FOR`].

use std::future::Future;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::error::{Error, Result};

/// How long before its end another one is looked for.
const MARGIN: Duration = Duration::from_secs(120);
const FAILED_FOR: Duration = Duration::from_secs(1);

pub(crate) trait Ends: Clone {
    fn lasts(&self, time: Duration) -> bool;
}

pub(crate) struct Kept<T>(Mutex<State<T>>);

struct State<T> {
    known: Option<T>,
    failed: Option<(Instant, Error)>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        let (known, failed) = (None, None);
        Self(Mutex::new(State { known, failed }))
    }
}

impl<T: Ends> Kept<T> {
    /// What is kept, or found.
    ///
    /// # Errors
    /// As the look; [`Error::TryLater`] where there was one before.
    pub(crate) async fn get(&self, find: impl Future<Output = Result<T>>) -> Result<T> {
        let mut state = self.0.lock().await;
        if let Some(known) = state.known.as_ref().filter(|known| known.lasts(MARGIN)) {
            return Ok(known.clone());
        }
        let failed = state.failed.take();
        let failed = failed.filter(|(at, _)| at.elapsed() < FAILED_FOR);
        let (at, error) = match failed {
            Some(failed) => failed,
            None => match find.await {
                Ok(found) => {
                    state.known = Some(found.clone());
                    return Ok(found);
                }
                Err(error) => (Instant::now(), error),
            },
        };
        state.failed = Some((at, error.clone()));
        match &state.known {
            Some(known) if known.lasts(Duration::ZERO) => Ok(known.clone()),
            Some(_) => Err(Error::TryLater(error.to_string())),
            None => Err(error),
        }
    }

    /// Forgets what a store refuses; returns whether another may be found.
    pub(crate) fn forget(&self) -> bool {
        // Where it is locked, another one is looked for already.
        self.0.try_lock().map_or(true, |mut state| {
            state.failed = None;
            state.known.take().is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::ready;

    /// Until so many seconds from now.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Token(u64);

    impl Ends for Token {
        fn lasts(&self, time: Duration) -> bool {
            time.as_secs() < self.0
        }
    }

    fn refused() -> Result<Token> {
        Err(Error::Denied("no".to_owned()))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_good_is_kept_and_what_ends_is_renewed() {
        let kept = Kept::default();
        let good = Token(121);
        let ending = Token(120);
        assert_eq!(kept.get(ready(Ok(ending.clone()))).await, Ok(ending));
        assert_eq!(kept.get(ready(Ok(good.clone()))).await, Ok(good.clone()));
        assert_eq!(kept.get(ready(refused())).await, Ok(good));
        assert!(kept.forget() && !kept.forget());
        assert_eq!(kept.get(ready(refused())).await, refused());
    }

    #[tokio::test(start_paused = true)]
    async fn what_opened_once_is_waited_for() {
        let kept = Kept::default();
        let ending = Token(120);
        kept.get(ready(Ok(ending.clone()))).await.expect("a token");
        assert_eq!(kept.get(ready(refused())).await, Ok(ending));
        tokio::time::advance(FAILED_FOR).await;
        let ended = Token(0);
        kept.get(ready(Ok(ended))).await.expect("a token");
        let later = Err(Error::TryLater("no".to_owned()));
        assert_eq!(kept.get(ready(refused())).await, later);
        // A failure stands for a moment.
        let good = Token(121);
        assert_eq!(kept.get(ready(Ok(good.clone()))).await, later);
        tokio::time::advance(FAILED_FOR).await;
        assert_eq!(kept.get(ready(Ok(good.clone()))).await, Ok(good));
        // What the store has refused proves nothing.
        assert!(kept.forget());
        assert_eq!(kept.get(ready(refused())).await, refused());
    }
}
