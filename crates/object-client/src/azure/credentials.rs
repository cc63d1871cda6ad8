//! What opens an account: its key, a signature in the query (SAS), or a token.

use std::fmt;
use std::sync::Arc;

use hyper::header::HeaderValue;
use reqsign_core::{Context, Env, OsEnv};

use super::shared_key::SharedKey;
use super::tokens::{self, Token};
use crate::error::Result;
use crate::kept::Kept;
use crate::lookup;
use crate::options::Options;
use crate::transport::Transport;

/// What a request is opened by.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing: containers that all may read.
    Anonymous,
    /// The key of the account, by which the request is signed.
    Key(Arc<SharedKey>),
    /// A part of the query, without a question mark.
    Signature(Arc<str>),
    /// The header `Authorization`.
    Token(HeaderValue),
}

impl fmt::Debug for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => formatter.write_str("Anonymous"),
            Self::Key(key) => write!(formatter, "Key({key:?})"),
            Self::Signature(_) => formatter.write_str("Signature(..)"),
            Self::Token(_) => formatter.write_str("Token(..)"),
        }
    }
}

/// Where it comes from.
pub(crate) struct Credentials {
    given: Option<Access>,
    context: Context,
    known: Kept<Token>,
}

impl Credentials {
    /// `given`, or tokens that are looked for.
    pub(crate) fn new(given: Option<Access>, options: &Options) -> Self {
        Self::with(given, OsEnv, lookup::transport(options))
    }

    /// The same with an environment and with connections that are given.
    pub(super) fn with(given: Option<Access>, environment: impl Env, transport: Transport) -> Self {
        Self {
            given,
            context: lookup::context(environment, transport),
            known: Kept::default(),
        }
    }

    /// What is good for a while.
    ///
    /// # Errors
    /// [`Error::Denied`](crate::Error::Denied) when there is nothing.
    pub(crate) async fn now(&self) -> Result<Access> {
        if let Some(access) = &self.given {
            return Ok(access.clone());
        }
        let token = self.known.get(tokens::find(&self.context)).await?;
        Ok(Access::Token(token.header()))
    }

    /// Forgets a token that a server refuses, and says whether another may be found.
    pub(crate) fn forget(&self) -> bool {
        self.given.is_none() && self.known.forget()
    }
}
