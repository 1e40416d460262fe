//! Clients of object stores, their runtime, and explanations of their errors.
//!
//! Credentials and endpoints come from the environment, as for each service's own tools. A response
//! times out after ten seconds and a connection after five, with three retries within fifteen seconds: a store
//! that cannot be reached is reported soon.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig};
use tokio::runtime::Runtime;
use veridical_core::Error as Core;

use super::location::{Location, Service};
use crate::{Error, Result};

/// The purpose of a client: sending a part takes longer than receiving a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    Read,
    Write,
}

type Clients = HashMap<(Service, String, Purpose), Arc<dyn ObjectStore>>;

/// The threads on which requests run; nothing else in the workspace is asynchronous.
pub(super) fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::result::Result<Runtime, String>> = OnceLock::new();
    let start = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).thread_name("storage").enable_all().build()
    };
    let runtime = RUNTIME.get_or_init(|| start().map_err(|e| e.to_string()));
    runtime
        .as_ref()
        .map_err(|e| Core::System { what: "start the threads for storage", why: e.clone() }.into())
}

/// The client for a location.
pub(super) fn client(at: &Location, purpose: Purpose) -> Result<Arc<dyn ObjectStore>> {
    static CLIENTS: OnceLock<Mutex<Clients>> = OnceLock::new();
    let clients = CLIENTS.get_or_init(Mutex::default);
    let mut clients = clients.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (at.service, at.bucket.clone(), purpose);
    if let Some(client) = clients.get(&key) {
        return Ok(Arc::clone(client));
    }
    let client = connect(at, purpose).map_err(|e| explain(at, "open", &e))?;
    clients.insert(key, Arc::clone(&client));
    Ok(client)
}

fn connect(at: &Location, purpose: Purpose) -> object_store::Result<Arc<dyn ObjectStore>> {
    // Fails if one is already installed, which is equally good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(2),
            base: 2.0,
        },
        max_retries: 3,
        retry_timeout: Duration::from_secs(15),
    };
    let answer = if purpose == Purpose::Read { "10s" } else { "120s" };
    let limits = [
        (ClientConfigKey::ConnectTimeout, "5s"),
        (ClientConfigKey::ReadTimeout, answer),
        (ClientConfigKey::Timeout, "600s"),
    ];
    Ok(match at.service {
        Service::S3 => {
            let builder =
                limits.into_iter().fold(AmazonS3Builder::from_env(), |b, (key, limit)| {
                    b.with_config(AmazonS3ConfigKey::Client(key), limit)
                });
            Arc::new(builder.with_bucket_name(&at.bucket).with_retry(retry).build()?)
        }
        Service::Google => {
            let from_env = GoogleCloudStorageBuilder::from_env();
            let builder = limits.into_iter().fold(from_env, |b, (key, limit)| {
                b.with_config(GoogleConfigKey::Client(key), limit)
            });
            Arc::new(builder.with_bucket_name(&at.bucket).with_retry(retry).build()?)
        }
        Service::Azure => {
            let from_env = MicrosoftAzureBuilder::from_env();
            let builder = limits.into_iter().fold(from_env, |b, (key, limit)| {
                b.with_config(AzureConfigKey::Client(key), limit)
            });
            let url = format!("abfs://{}", at.bucket);
            Arc::new(builder.with_url(url).with_retry(retry).build()?)
        }
    })
}

/// Explains the error of a store: what was requested, why it failed, what to do.
pub(super) fn explain(at: &Location, action: &str, error: &object_store::Error) -> Error {
    use object_store::Error as E;
    let (bucket, key, service) = (&at.bucket, &at.key, at.service);
    let text = chain(error);
    let no_bucket = ["NoSuchBucket", "ContainerNotFound", "bucket does not exist"];
    // A rejected listing has no error kind of its own.
    let is_denied =
        ["status code: 401", "status code: 403"].iter().any(|status| text.contains(status))
            || matches!(error, E::PermissionDenied { .. } | E::Unauthenticated { .. });
    let is_transient = !matches!(error, E::Precondition { .. } | E::NotFound { .. });
    let what = match error {
        _ if METADATA_SERVICES.iter().any(|path| text.contains(path)) => {
            format!("there are no credentials; set {}", service.credentials())
        }
        _ if no_bucket.iter().any(|code| text.contains(code)) => {
            format!("there is no bucket `{bucket}`; check its name and {}", service.endpoint())
        }
        E::NotFound { .. } => {
            format!("there is no object `{key}` in bucket `{bucket}`; check the name")
        }
        _ if is_denied => {
            let code = code(&text).map(|code| format!(" ({code})")).unwrap_or_default();
            format!(
                "access to `{key}` in bucket `{bucket}` is denied{code}; check {} and their permissions",
                service.credentials()
            )
        }
        E::Precondition { .. } => CHANGED.to_owned(),
        _ => {
            let why = reason(error);
            let (credentials, endpoint) = (service.credentials(), service.endpoint());
            format!("bucket `{bucket}`: {why}; check the network, {endpoint}, and {credentials}")
        }
    };
    let path = at.url.clone();
    Error::Store { path, what: format!("cannot {action}: {what}"), is_transient }
}

const CHANGED: &str =
    "the object changed while it was read; run the job again when no other process writes to it";
/// Where cloud machines request credentials when the environment has none.
const METADATA_SERVICES: [&str; 3] = ["latest/api/token", "latest/meta-data", "computeMetadata"];

/// The error for an object that changed after it was opened.
pub(super) fn changed(at: &Location) -> Error {
    let (path, what) = (at.url.clone(), format!("cannot read: {CHANGED}"));
    Error::Store { path, what, is_transient: false }
}

/// An error with all its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |e| e.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// The last cause, in one line.
fn reason(error: &dyn std::error::Error) -> String {
    let last = std::iter::successors(error.source(), |e| e.source()).last();
    let text = last.map_or_else(|| error.to_string(), ToString::to_string);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.trim_end_matches([':', ' ']);
    let short: String = line.chars().take(200).collect();
    if short.len() < line.len() { short + "..." } else { short }
}

/// The `<Code>` of a response from S3 or Azure.
fn code(text: &str) -> Option<&str> {
    let (code, _) = text.split_once("<Code>")?.1.split_once("</Code>")?;
    Some(code)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn located(url: &str) -> Location {
        Location::parse(Path::new(url)).unwrap().unwrap()
    }

    fn at() -> Location {
        located("s3://bucket/folder/t.parquet")
    }

    fn message(error: &object_store::Error) -> (String, bool) {
        let error = explain(&at(), "read", error);
        (error.to_string(), error.is_resumable())
    }

    #[test]
    fn errors_name_bucket_key_and_remedy() {
        let path = || "folder/t.parquet".to_owned();
        let missing = object_store::Error::NotFound { path: path(), source: "404".into() };
        assert_eq!(
            message(&missing),
            (
                "s3://bucket/folder/t.parquet: cannot read: there is no object `folder/t.parquet` in \
                 bucket `bucket`; check the name"
                    .into(),
                false
            )
        );
        let body = "<Error><Code>NoSuchBucket</Code></Error>";
        let no_bucket = object_store::Error::NotFound { path: path(), source: body.into() };
        assert_eq!(
            message(&no_bucket).0,
            "s3://bucket/folder/t.parquet: cannot read: there is no bucket `bucket`; check its name and \
             AWS_ENDPOINT_URL and AWS_REGION"
        );
        let body = "<Error><Code>SignatureDoesNotMatch</Code></Error>";
        let denied = object_store::Error::PermissionDenied { path: path(), source: body.into() };
        assert_eq!(
            message(&denied),
            (
                "s3://bucket/folder/t.parquet: cannot read: access to `folder/t.parquet` in bucket \
                 `bucket` is denied (SignatureDoesNotMatch); check AWS_ACCESS_KEY_ID, \
                 AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN and their permissions"
                    .into(),
                true
            )
        );
        let changed = object_store::Error::Precondition { path: path(), source: "412".into() };
        assert_eq!(
            message(&changed),
            (
                "s3://bucket/folder/t.parquet: cannot read: the object changed while it was read; run \
                 the job again when no other process writes to it"
                    .into(),
                false
            )
        );
        let source = "http://169.254.169.254/latest/api/token".into();
        let anonymous = object_store::Error::Generic { store: "S3", source };
        assert!(message(&anonymous).0.contains("there are no credentials; set AWS_ACCESS_KEY_ID"));
    }

    #[test]
    fn every_service_names_its_own_settings() {
        for (url, want) in [
            ("gs://b/k", "GOOGLE_APPLICATION_CREDENTIALS"),
            ("az://c/k", "AZURE_STORAGE_ACCOUNT_NAME"),
        ] {
            let at = located(url);
            let source = "connection\n refused".into();
            let error = object_store::Error::Generic { store: "x", source };
            let message = explain(&at, "write", &error).to_string();
            assert!(message.contains("connection refused") && message.contains(want), "{message}");
        }
    }
}
