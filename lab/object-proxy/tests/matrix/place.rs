//! The server that the tests run on, as `tests/objects/run.sh` names it, and the cells that they
//! write.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pagewell_object_client::{Keys, Options, Remote, open};
use pagewell_object_proxy::{Proxy, Script};

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name}: tests/objects/run.sh sets it"))
}

/// Which server it is.
pub(crate) fn name() -> String {
    variable("PAGEWELL_OBJECT_SERVER")
}

/// The folder that a web server serves.
pub(crate) fn folder() -> PathBuf {
    variable("PAGEWELL_OBJECT_FOLDER").into()
}

fn address() -> SocketAddr {
    let url = variable("PAGEWELL_OBJECT_URL");
    url.trim_start_matches("http://").parse().unwrap()
}

/// What was seen.
pub(crate) fn cell(row: &str, seen: &str) {
    let mut file = OpenOptions::new();
    let file = file.append(true).create(true);
    let mut file = file.open(variable("PAGEWELL_OBJECT_CELLS")).unwrap();
    writeln!(file, "{row}\t{seen}").unwrap();
}

fn options(endpoint: SocketAddr) -> Options {
    let (public, secret) = match is_azure() {
        true => AZURE_KEYS,
        false => ("pagewell-test", "pagewell-test-secret"),
    };
    Options {
        endpoint: Some(format!("http://{endpoint}")),
        region: Some("us-east-1".to_owned()),
        keys: Some(Keys {
            access_key_id: public.to_owned(),
            secret_access_key: secret.to_owned(),
            session_token: None,
        }),
        anonymous: is_google(),
        ..Options::default()
    }
}

fn impatient(options: &mut Options) {
    options.retry = Duration::from_secs(1);
}

/// A remote behind a proxy of its own.
pub(crate) struct Place {
    pub(crate) proxy: Proxy,
    pub(crate) remote: Arc<dyn Remote>,
}

/// An account of Azure and its key, of base 64.
pub(crate) const AZURE_KEYS: (&str, &str) = ("pagewelltest", "cGFnZXdlbGwtdGVzdC1zZWNyZXQ=");

/// A bucket of this server as a URL.
pub(crate) fn url_of(bucket: &str) -> String {
    let scheme = match (is_azure(), is_google()) {
        (true, _) => "az",
        (_, true) => "gs",
        _ => "s3",
    };
    format!("{scheme}://{bucket}")
}

/// Whether the server is one of Azure's kind.
pub(crate) fn is_azure() -> bool {
    name() == "azurite"
}

/// Whether the server is one of Google's kind, which is asked without credentials.
pub(crate) fn is_google() -> bool {
    name().starts_with("fake-gcs")
}

impl Place {
    fn new(
        url: impl Fn(SocketAddr) -> String,
        script: &str,
        change: impl FnOnce(&mut Options),
    ) -> Self {
        let script: Script = script.parse().unwrap();
        let proxy = Proxy::start(address(), script).unwrap();
        let mut options = options(proxy.address());
        change(&mut options);
        let remote = open(&url(proxy.address()), &options).unwrap();
        Self { proxy, remote }
    }

    /// The bucket.
    pub(crate) fn bucket(script: &str) -> Self {
        Self::new(|_| url_of("bucket"), script, |_| {})
    }

    /// The bucket, by a client that gives up soon.
    pub(crate) fn impatient_bucket(script: &str) -> Self {
        Self::new(|_| url_of("bucket"), script, impatient)
    }

    /// A bucket, by a client that is mistaken.
    pub(crate) fn wrong(bucket: &str, mistake: impl FnOnce(&mut Options)) -> Self {
        Self::new(|_| url_of(bucket), "", mistake)
    }

    /// The whole web server.
    pub(crate) fn web(script: &str) -> Self {
        Self::new(|address| format!("http://{address}/"), script, |_| {})
    }

    /// The same, by a client that gives up soon.
    pub(crate) fn impatient_web(script: &str) -> Self {
        Self::new(|address| format!("http://{address}/"), script, impatient)
    }

    /// What happens from now on.
    pub(crate) fn set_script(&self, script: &str) {
        self.proxy.set_script(script.parse().unwrap());
    }
}
