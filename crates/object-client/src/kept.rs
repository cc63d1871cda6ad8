//! What opens a store for a while: keys or a token.
//!
//! It is looked for once by all that want it at a time, and kept until shortly before its end.
//! Where no other is found then, it is used until its end; after that a request is tried again for
//! as long as others that fail, since whatever gave one once may only be out of reach. A store that
//! refuses it ends both. A look that failed is not made again for [`FAILED_FOR`], by however many
//! callers want it.

use std::future::Future;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::error::{Error, Result};

/// How long before its end another one is looked for.
const MARGIN: Duration = Duration::from_secs(120);
/// How long a look that failed stands for others.
const FAILED_FOR: Duration = Duration::from_secs(1);

/// What has an end.
pub(crate) trait Ends: Clone {
    /// Whether it can still be used after so long.
    fn lasts(&self, time: Duration) -> bool;
}

/// See the module's text.
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
    /// What is known, or found.
    ///
    /// # Errors
    /// As the look for it; [`Error::TryLater`] where there was one before.
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

    /// Forgets what a store refuses, and says whether another may be found.
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
