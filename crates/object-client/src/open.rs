//! From a URL to a remote.

use std::path::PathBuf;
use std::sync::Arc;

use pagewell_base::files::home;

use crate::azure::Container;
use crate::error::Result;
use crate::google;
use crate::location::Location;
use crate::lookup;
use crate::options::Options;
use crate::remote::Remote;
use crate::runtime;
use crate::s3::Bucket;
use crate::store_remote::StoreRemote;
use crate::transport::Transport;
use crate::web::{Web, WebRemote};

/// Opens the remote of a URL; its options go before `options`. No request is sent yet.
///
/// Keys of a bucket are whole, with the prefix of the URL; those of a web server are whole paths
/// without the first slash. [`Location::parse`] tells which key the URL itself names.
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
            Arc::new(StoreRemote::new(bucket, prefix))
        }
        Location::Azure { bucket, prefix } => {
            let container = Container::open(bucket, &options, transport)?;
            Arc::new(StoreRemote::new(container, prefix))
        }
        Location::Google { bucket, prefix } => {
            let place = (bucket, prefix.clone());
            let bucket = google::Bucket::open(place, &options, transport)?;
            Arc::new(StoreRemote::new(bucket, prefix))
        }
        Location::Web {
            origin,
            path_and_query,
            prefix,
        } => Arc::new(WebRemote::new(Web::new(
            transport.of_web(),
            origin,
            path_and_query,
            prefix,
        ))),
    })
}

const AUTHORITIES: [&str; 4] = [
    "/etc/ssl",
    "/etc/pki",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
];
/// Variables that name files, and the default below the home folder.
type Named = [(&'static str, &'static str)];
const OF_OTHERS: &Named = &[
    ("AWS_CONFIG_FILE", ".aws/config"),
    ("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"),
    ("AWS_WEB_IDENTITY_TOKEN_FILE", ".aws/sso/cache"),
    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", ""),
    ("AZURE_FEDERATED_TOKEN_FILE", ""),
    ("AZURE_CONFIG_DIR", ".azure"),
    ("SSL_CERT_FILE", ""),
];
const OF_GOOGLE: &Named = &[
    (APPLICATION_CREDENTIALS, ".config/gcloud"),
    ("SSL_CERT_FILE", ""),
];
const APPLICATION_CREDENTIALS: &str = "GOOGLE_APPLICATION_CREDENTIALS";
/// Where a file of credentials names another that holds a token of another party.
const TOKEN_FILE: &str = "/credential_source/file";

/// Files and folders that the remote of a URL may read at any time, there or not: for a process
/// that gives up all others.
///
/// # Errors
/// As [`open`].
pub fn files_of(url: &str, options: &Options) -> Result<Vec<PathBuf>> {
    let mut options = options.clone();
    let location = Location::parse(url, &mut options)?;
    let mut files: Vec<PathBuf> = AUTHORITIES.iter().map(PathBuf::from).collect();
    files.extend(options.certificates);
    files.extend(options.key_file);
    let has_chain = options.keys.is_none() && !options.anonymous;
    if has_chain {
        let named = match location {
            Location::S3 { .. } | Location::Azure { .. } => OF_OTHERS,
            Location::Google { .. } => OF_GOOGLE,
            Location::Web { .. } => &[],
        };
        let home = home();
        for (variable, below_home) in named {
            files.extend(std::env::var_os(variable).map(PathBuf::from));
            if let Some(home) = home.as_ref().filter(|_| !below_home.is_empty()) {
                files.push(home.join(below_home));
            }
        }
        if matches!(location, Location::Google { .. }) {
            let file = std::env::var(APPLICATION_CREDENTIALS).ok();
            files.extend(file.and_then(|file| token_file_of(&file)));
            let configurations = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
            files.extend(configurations.map(|folder| folder.join("gcloud")));
        }
    }
    Ok(files)
}

fn token_file_of(path: &str) -> Option<PathBuf> {
    let document: serde_json::Value = serde_json::from_slice(&lookup::read(path).ok()?).ok()?;
    document.pointer(TOKEN_FILE)?.as_str().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_keys_are_named_where_keys_are_looked_for() {
        let files = |url| files_of(url, &Options::default()).expect("files");
        let has_config = |files: &[PathBuf]| files.iter().any(|file| file.ends_with(".aws/config"));
        let has_home = home().is_some();
        assert_eq!(has_config(&files("s3://b/p")), has_home);
        assert!(!has_config(&files("s3://b/p?anonymous=true")));
        let has_gcloud = |files: &[PathBuf]| files.iter().any(|file| file.ends_with("gcloud"));
        let has_folder = has_home || std::env::var_os("XDG_CONFIG_HOME").is_some();
        assert_eq!(has_gcloud(&files("gs://b/p")), has_folder);
        assert!(!has_config(&files("gs://b/p")) && !has_gcloud(&files("s3://b/p")));
        assert!(!has_gcloud(&files("gs://b/p?anonymous=true")));
        let of_web = files("https://h/f");
        assert!(!has_config(&of_web) && of_web.contains(&PathBuf::from("/etc/ssl")));
        assert!(files("s3://b?ca=own.pem").contains(&PathBuf::from("own.pem")));
        assert!(files_of("s3://", &Options::default()).is_err());
    }

    #[test]
    fn a_file_of_credentials_may_name_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("workload.json");
        let read = |text: &str| {
            std::fs::write(&path, text).expect("a file");
            token_file_of(path.to_str().expect("a path"))
        };
        let text = r#"{"type": "external_account", "credential_source": {"file": "/run/token"}}"#;
        assert_eq!(read(text), Some(PathBuf::from("/run/token")));
        assert_eq!(read(r#"{"type": "service_account"}"#), None);
        assert_eq!(read("no JSON"), None);
        assert_eq!(token_file_of("/none"), None);
    }
}
