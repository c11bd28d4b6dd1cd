//! The stores behind addresses.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;

use crate::address::{RemoteAddress, Scheme};
use crate::engine::Engine;
use crate::{Problem, RemoteError};

/// The store of an address, and the object's place in it.
pub(crate) fn of(
    engine: &Arc<Engine>,
    address: &RemoteAddress,
) -> Result<(Arc<dyn ObjectStore>, Path), RemoteError> {
    let fail = |problem| RemoteError::new(address, problem);
    match address.scheme() {
        Scheme::File => {
            let path = address.local_path().unwrap_or(std::path::Path::new(""));
            let path = Path::from_absolute_path(path);
            let path =
                path.map_err(|_| fail(Problem::Address("it is no path of this machine".into())))?;
            Ok((Arc::new(object_store::local::LocalFileSystem::new()), path))
        }
        #[cfg(feature = "http")]
        Scheme::Http => web(engine, address),
        #[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
        scheme => Ok((of_bucket(engine, address, scheme)?, key(address)?)),
        #[allow(unreachable_patterns, reason = "a build may have every store")]
        scheme => {
            let _ = engine;
            Err(fail(Problem::Disabled(scheme.feature())))
        }
    }
}

#[cfg(any(feature = "azure", feature = "gcs", feature = "http", feature = "s3"))]
fn retries(engine: &Engine) -> object_store::RetryConfig {
    object_store::RetryConfig {
        backoff: object_store::BackoffConfig {
            init_backoff: std::time::Duration::from_millis(50),
            max_backoff: std::time::Duration::from_secs(5),
            base: 2.0,
        },
        max_retries: engine.options.retries,
        retry_timeout: std::time::Duration::from_secs(180),
    }
}

/// The store is the object itself, so that its address is asked for as it was typed.
#[cfg(feature = "http")]
fn web(
    engine: &Arc<Engine>,
    address: &RemoteAddress,
) -> Result<(Arc<dyn ObjectStore>, Path), RemoteError> {
    let url = address.url().map(|url| url.as_str()).unwrap_or_default();
    let store = object_store::http::HttpBuilder::new()
        .with_url(url)
        .with_client_options(object_store::ClientOptions::new().with_allow_http(true))
        .with_retry(retries(engine))
        .with_http_connector(crate::service::Connector::new(engine, true))
        .build()
        .map_err(|_| RemoteError::new(address, Problem::Address("it can't be asked for".into())))?;
    Ok((Arc::new(store), Path::default()))
}

/// The store of a bucket, one for all of its objects, which so share connections and credentials.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn of_bucket(
    engine: &Arc<Engine>,
    address: &RemoteAddress,
    scheme: Scheme,
) -> Result<Arc<dyn ObjectStore>, RemoteError> {
    let (bucket, _) = address.bucket().unwrap_or_default();
    if let Some(store) = engine.stores().get(&bucket) {
        return Ok(store.clone());
    }
    let store = match build(engine, address, scheme) {
        Some(built) => built?,
        None => {
            return Err(RemoteError::new(
                address,
                Problem::Disabled(scheme.feature()),
            ));
        }
    };
    // Whoever was faster has made the same.
    Ok(engine.stores().entry(bucket).or_insert(store).clone())
}

#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn key(address: &RemoteAddress) -> Result<Path, RemoteError> {
    let (_, key) = address.bucket().unwrap_or_default();
    let wrong = |_| {
        RemoteError::new(
            address,
            Problem::Address("its key can't be asked for".into()),
        )
    };
    Path::parse(key).map_err(wrong)
}

#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
#[allow(
    unused_macros,
    unused_variables,
    reason = "a build may have one store only"
)]
fn build(
    engine: &Arc<Engine>,
    address: &RemoteAddress,
    scheme: Scheme,
) -> Option<Result<Arc<dyn ObjectStore>, RemoteError>> {
    let (url, _) = address.bucket().unwrap_or_default();
    macro_rules! store {
        ($builder:expr, $credentials:expr) => {{
            let mut builder = $builder
                .with_url(url)
                .with_retry(retries(engine))
                .with_http_connector(crate::service::Connector::new(engine, false));
            for (key, value) in &engine.options.store {
                match key.parse() {
                    Ok(key) => builder = builder.with_config(key, value),
                    // A setting of another kind of store.
                    Err(_) => {}
                }
            }
            if let Some(credentials) = $credentials {
                builder = builder.with_credentials(credentials);
            }
            let built = builder
                .build()
                .map(|store| Arc::new(store) as Arc<dyn ObjectStore>);
            Some(built.map_err(|error| RemoteError::new(address, misconfigured(scheme, &error))))
        }};
    }
    match scheme {
        #[cfg(feature = "s3")]
        Scheme::S3 => store!(
            // What deletes one by one works everywhere.
            object_store::aws::AmazonS3Builder::from_env().with_disable_bulk_delete(true),
            own_keys(engine)
        ),
        #[cfg(feature = "gcs")]
        Scheme::Gcs => store!(
            object_store::gcp::GoogleCloudStorageBuilder::from_env(),
            None
        ),
        #[cfg(feature = "azure")]
        Scheme::Azure => store!(object_store::azure::MicrosoftAzureBuilder::from_env(), None),
        _ => None,
    }
}

/// The keys of a user who was named by them and not by the environment, whose token is not theirs.
#[cfg(feature = "s3")]
fn own_keys(engine: &Engine) -> Option<object_store::aws::AwsCredentialProvider> {
    let set = |name: &str| engine.options.store.get(name).cloned();
    if set("aws_session_token").is_some() {
        return None;
    }
    let keys = object_store::aws::AwsCredential {
        key_id: set("aws_access_key_id")?,
        secret_key: set("aws_secret_access_key")?,
        token: None,
    };
    Some(Arc::new(object_store::StaticCredentialProvider::new(keys)))
}

/// What is wrong with the settings, without any of their values.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn misconfigured(scheme: Scheme, error: &object_store::Error) -> Problem {
    let prefix = match scheme {
        Scheme::S3 => "AWS_",
        Scheme::Gcs => "GOOGLE_",
        _ => "AZURE_",
    };
    let text = error.to_string();
    // Only what names a setting, never what quotes one.
    let known = [
        "Account must be specified",
        "Container name must be specified",
        "Missing bucket name",
    ];
    let which = known.iter().find(|known| text.contains(**known));
    Problem::Denied(format!(
        "the settings ({prefix}... in the environment, storage options) don't fit it{}",
        which.map_or(String::new(), |which| format!(": {}", which.to_lowercase()))
    ))
}
