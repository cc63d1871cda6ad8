//! From a URL to a remote.

use std::sync::Arc;

use crate::error::Result;
use crate::location::Location;
use crate::options::Options;
use crate::remote::Remote;
use crate::runtime;
use crate::s3::{Bucket, BucketRemote};
use crate::transport::Transport;
use crate::web::{Web, WebRemote};

/// Opens the remote of a URL; its options go before `options`. Nothing is asked of the server yet.
///
/// Keys of a bucket are whole keys, not cut by the prefix of the URL; those of a web server are
/// whole paths without the first slash. [`Location::parse`] tells which the URL itself names.
///
/// # Errors
/// [`Invalid`](crate::Error::Invalid) with what is wrong with the URL, the options or the files of
/// the AWS tools.
pub fn open(url: &str, options: &Options) -> Result<Arc<dyn Remote>> {
    let mut options = options.clone();
    let location = Location::parse(url, &mut options)?;
    runtime::ready()?;
    let transport = Transport::new(&options);
    Ok(match location {
        Location::S3 { bucket, prefix } => {
            let bucket = Bucket::open(bucket, &options, transport)?;
            Arc::new(BucketRemote::new(bucket, prefix))
        }
        Location::Web {
            origin,
            path_and_query,
            prefix,
        } => Arc::new(WebRemote::new(Web::new(
            transport,
            origin,
            path_and_query,
            prefix,
        ))),
    })
}
