//! Tensor files in object stores and on web servers, as a [`Source`](tensor_core::Source): whatever opens a
//! file lazily opens an object as lazily.
//!
//! ```no_run
//! use tensor_remote::{Remote, RemoteOptions};
//!
//! let remote = Remote::new(RemoteOptions::default())?;
//! let source = remote.open(&"https://example.org/models/tiny.mag".parse()?)?;
//! let archive = mag_format::Archive::from_source(source, &mag_format::ReadOptions::default())?;
//! for entry in archive.entries() {
//!     println!("{} {}", entry.name(), entry.shape());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Addresses
//!
//! | address | store | feature | settings |
//! |---|---|---|---|
//! | `s3://bucket/key` | Amazon S3 and whatever speaks its protocol | `s3` | `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT`, ... |
//! | `gs://bucket/key` | Google Cloud Storage | `gcs` | `GOOGLE_APPLICATION_CREDENTIALS`, ... |
//! | `az://container/key`, `abfs://`, `abfss://` | Azure Blob Storage | `azure` | `AZURE_STORAGE_ACCOUNT_NAME`, `AZURE_STORAGE_ACCOUNT_KEY`, ... |
//! | `http://`, `https://` | any server that answers ranges | `http` (default) | the address itself |
//! | `file:///path` | this machine | | |
//!
//! Settings come from the environment, as [`object_store`] has them, or from
//! [`RemoteOptions::store`]. They appear in no message, and neither does the query of an address.
//!
//! # What is promised
//!
//! - All bytes of a [`RemoteSource`] are of one version of its object. Its ETag is part of each request, ETag,
//!   version, time and size of each answer are compared, and a change is an error from then on.
//! - An answer that is too short, too long or about other bytes is an error, after it was asked for again where
//!   that may help.
//! - Redirects are followed to the server that was named, and to others only if they are in
//!   [`RemoteOptions::origins`].
//! - Nothing takes more memory than [`RemoteOptions::bytes_in_flight`] beside the buffers of the caller.
//!
//! [`object_store`]: https://docs.rs/object_store

#![forbid(unsafe_code)]
#![cfg_attr(
    not(any(feature = "azure", feature = "gcs", feature = "http", feature = "s3")),
    allow(dead_code, reason = "nothing counts requests where there are none")
)]

mod address;
mod ahead;
mod cache;
mod engine;
mod error;
mod fetch;
mod options;
mod pairs;
mod remote;
#[cfg(any(feature = "azure", feature = "gcs", feature = "http", feature = "s3"))]
mod service;
mod set;
mod source;
mod store;
mod trace;
mod upload;

pub use address::{RemoteAddress, Scheme};
pub use error::{Problem, RemoteError};
pub use options::{RemoteOptions, Usage};
pub use remote::Remote;
pub use set::RemoteSet;
pub use source::RemoteSource;
pub use upload::RemoteUpload;
