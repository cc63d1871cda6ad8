//! Where tokens come from: the chain has nothing but the variables and files of a test, and a
//! script for all servers.

use std::collections::HashMap;

use reqsign_core::StaticEnv;
use tempfile::TempDir;

use super::*;

const GOOD: &str = r#"{"access_token": "one", "expires_in": 3600, "token_type": "Bearer"}"#;
const OBJECT: &str = r#"{"size": "3", "generation": "7"}"#;

fn chain(variables: &[(&str, &str)], script: &Arc<Script>) -> Credentials {
    let variables = variables.iter();
    let envs = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let environment = StaticEnv {
        home_dir: None,
        envs: envs.collect::<HashMap<_, _>>(),
    };
    let transport = Transport::over(Box::new(Scripted(Arc::clone(script))), &options());
    Credentials::with(environment, transport)
}

fn file(folder: &TempDir, text: &str) -> String {
    let path = folder.path().join("credentials.json");
    std::fs::write(&path, text).expect("a file");
    path.to_str().expect("a path").to_owned()
}

async fn token(credentials: &Credentials) -> String {
    let header = credentials.header().await.expect("a token");
    assert!(header.is_sensitive() && !format!("{header:?}").contains("one"));
    header.to_str().expect("text").to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_user_of_gcloud_has_a_token() {
    let user = r#"{"type": "authorized_user", "client_id": "id", "client_secret": "secret",
        "refresh_token": "refresh"}"#;
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("gcloud")).expect("a folder");
    let known = folder
        .path()
        .join("gcloud/application_default_credentials.json");
    std::fs::write(known, user).expect("a file");
    let config = folder.path().to_str().expect("a path");
    let script = Script::new([answer(200, GOOD)]);
    let credentials = chain(&[("XDG_CONFIG_HOME", config)], &script);
    assert_eq!(token(&credentials).await, "Bearer one");
    // It is kept.
    assert_eq!(token(&credentials).await, "Bearer one");
    let seen = script.seen();
    assert_eq!(
        (seen.len(), seen[0].url.as_str()),
        (1, "https://oauth2.googleapis.com")
    );
}

#[tokio::test(start_paused = true)]
async fn a_workload_changes_its_token_for_one_of_google() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join("token");
    std::fs::write(&own, "of the workload").expect("a file");
    let text = json!({
        "type": "external_account",
        "audience": "//iam.googleapis.com/x",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "https://sts.googleapis.com/v1/token",
        "credential_source": {"file": own, "format": {"type": "text"}},
    });
    let path = file(&folder, &text.to_string());
    let script = Script::new([answer(200, GOOD)]);
    let credentials = chain(&[("GOOGLE_APPLICATION_CREDENTIALS", &path)], &script);
    assert_eq!(token(&credentials).await, "Bearer one");
    let seen = script.seen();
    assert_eq!(seen[0].url, "https://sts.googleapis.com");
    assert!(String::from_utf8_lossy(&seen[0].body).contains("of"));
}

/// The host of the metadata server is another in tests.
#[tokio::test(start_paused = true)]
async fn a_machine_has_a_token() {
    let script = Script::new([answer(200, GOOD)]);
    let credentials = chain(&[("GCE_METADATA_HOST", "127.0.0.1:1")], &script);
    assert_eq!(token(&credentials).await, "Bearer one");
    let seen = script.seen();
    assert_eq!(seen[0].url, "http://127.0.0.1:1");
    assert_eq!(seen[0].header("metadata-flavor"), Some("Google"));
}

#[tokio::test(start_paused = true)]
async fn without_a_token_it_is_said_how_to_give_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let damaged = file(
        &folder,
        "{\"type\": \"service_account\", \"private_key\": \"secret\"",
    );
    let none = folder.path().join("none");
    for path in [damaged.as_str(), none.to_str().expect("a path"), ""] {
        let script = Script::new([answer(404, "")]);
        let variables = [
            ("GOOGLE_APPLICATION_CREDENTIALS", path),
            ("GCE_METADATA_HOST", "127.0.0.1:1"),
        ];
        let error = chain(&variables, &script).header().await.expect_err("none");
        let text = error.to_string();
        assert!(matches!(error, Error::Denied(_)), "{text}");
        assert!(
            text.contains("gcloud auth application-default login"),
            "{text}"
        );
        assert!(!text.contains("secret") && !text.contains('\n'), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_refused_is_looked_for_again() {
    let old = r#"{"access_token": "old", "expires_in": 3600}"#;
    let tokens = Script::new([answer(200, old), answer(200, GOOD)]);
    let credentials = chain(&[("GCE_METADATA_HOST", "127.0.0.1:1")], &tokens);
    // Bytes are refused in words that are no JSON.
    let script = Script::new([answer(401, "Invalid Credentials"), answer(200, OBJECT)]);
    let transport = Transport::over(Box::new(Scripted(Arc::clone(&script))), &options());
    let endpoint = Endpoint::find(&Options::default(), None).expect("an endpoint");
    let place = ("bucket".to_owned(), String::new());
    let bucket = Bucket::with(place, endpoint, Some(credentials), transport);
    bucket.head("k").await.expect("an object");
    let seen = script.seen();
    let sent: Vec<_> = seen
        .iter()
        .map(|seen| seen.header("authorization"))
        .collect();
    assert_eq!(sent, [Some("Bearer old"), Some("Bearer one")]);
    assert_eq!(seen[0].url, "https://storage.googleapis.com");
}
