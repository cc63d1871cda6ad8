//! Connections: TCP, and TLS over it.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pagewell_base::sync::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::error::Error;
use crate::location::Origin;
use crate::transport::failure::{Failure, reason};

/// A hint for a server that does not answer in TLS.
const NO_TLS: &str =
    " (the server may speak none there: http:// instead of https://, or another port)";

pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(crate) type Connecting<'a> =
    Pin<Box<dyn Future<Output = Result<Box<dyn Stream>, Failure>> + Send + 'a>>;

pub(crate) trait Connect: Send + Sync {
    fn connect<'a>(&'a self, origin: &'a Origin) -> Connecting<'a>;
}

pub(crate) struct Network {
    limit: Duration,
    certificates: Option<PathBuf>,
}

impl Network {
    /// `limit` is how long a connection may take; `certificates` are trusted, too.
    pub(crate) fn new(limit: Duration, certificates: Option<PathBuf>) -> Self {
        Self {
            limit,
            certificates,
        }
    }

    fn tls(&self) -> Result<TlsConnector, Failure> {
        let made = configuration(self.certificates.as_deref());
        made.map(TlsConnector::from)
            .map_err(|text| Failure::lasting(Error::Invalid(text)))
    }

    async fn open(&self, origin: &Origin) -> Result<Box<dyn Stream>, Failure> {
        let url = origin.url();
        let host = origin.host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, origin.port)).await;
        let stream = stream.map_err(|error| {
            Failure::not_sent(format!("{url}: cannot connect: {}", reason(&error)))
        })?;
        // Without it small requests are only slower.
        let _ = stream.set_nodelay(true);
        if !origin.is_https {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Failure::lasting(Error::Invalid(format!("{url}: no name for TLS"))))?;
        match self.tls()?.connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            // A certificate does not become right by asking again.
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                let hint = if is_no_tls(&error) { NO_TLS } else { "" };
                let text = format!("{url}: TLS fails: {}{hint}", reason(&error));
                Err(Failure::lasting(Error::Unreachable(text)))
            }
            Err(error) => {
                let is_closed = error.kind() == ErrorKind::UnexpectedEof;
                let hint = if is_closed { NO_TLS } else { "" };
                let text = format!("{url}: TLS fails: {}{hint}", reason(&error));
                Err(Failure::not_sent(text))
            }
        }
    }
}

fn is_no_tls(error: &std::io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    matches!(
        cause,
        Some(rustls::Error::InvalidMessage(
            rustls::InvalidMessage::InvalidContentType
        ))
    )
}

impl Connect for Network {
    fn connect<'a>(&'a self, origin: &'a Origin) -> Connecting<'a> {
        Box::pin(async move {
            let opened = tokio::time::timeout(self.limit, self.open(origin)).await;
            opened.unwrap_or_else(|_| {
                let (url, limit) = (origin.url(), self.limit);
                let text = format!("{url}: no connection within {limit:?}");
                Err(Failure::not_sent(text))
            })
        })
    }
}

/// Configurations by the file of their certificates. All remotes share them: the system's
/// authorities are many, and a process that has given up its files cannot read them again.
static CONFIGURATIONS: Mutex<BTreeMap<Option<PathBuf>, Arc<ClientConfig>>> =
    Mutex::new(BTreeMap::new());
const CONFIGURATIONS_MAX: usize = 16;

fn configuration(certificates: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut known = CONFIGURATIONS.lock();
    let key = certificates.map(Path::to_owned);
    if let Some(configuration) = known.get(&key) {
        return Ok(Arc::clone(configuration));
    }
    let configuration = configure(certificates)?;
    if known.len() < CONFIGURATIONS_MAX {
        known.insert(key, Arc::clone(&configuration));
    }
    Ok(configuration)
}

/// TLS 1.2 and 1.3 with the authorities of the system and those of a file.
fn configure(certificates: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(system.certs);
    if let Some(path) = certificates {
        let wrong = |error: &dyn std::error::Error| {
            format!("certificates {}: {}", path.display(), reason(error))
        };
        let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
        for certificate in found {
            let certificate = certificate.map_err(|error| wrong(&error))?;
            roots.add(certificate).map_err(|error| wrong(&error))?;
        }
    }
    if roots.is_empty() {
        let text = "no certificates of authorities are installed (ca-certificates, or ca=FILE)";
        return Err(text.to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let configuration = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(configuration))
}
