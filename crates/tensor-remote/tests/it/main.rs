//! The crate against a server on the loopback address.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a test may stop at the first surprise"
)]

mod hostile;
mod reading;
#[cfg(feature = "s3")]
mod sets;
mod writing;

use std::time::Duration;

use tensor_core::{Source, SourceError};
use tensor_remote::{Remote, RemoteAddress, RemoteError, RemoteOptions, RemoteSource};
use test_data::http::Server;

/// Bytes of which no two stretches are alike.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn quick() -> RemoteOptions {
    RemoteOptions::default()
        .with_retries(2)
        .with_request_timeout(Duration::from_millis(700))
}

fn address(text: &str) -> RemoteAddress {
    text.parse().unwrap()
}

fn open_with(
    server: &Server,
    name: &str,
    options: RemoteOptions,
) -> Result<RemoteSource, RemoteError> {
    let remote = Remote::new(options)?;
    remote.open(&address(&server.url(name)))
}

fn open(server: &Server, name: &str) -> RemoteSource {
    open_with(server, name, quick()).unwrap()
}

fn read(source: &RemoteSource, start: usize, len: usize) -> Result<Vec<u8>, SourceError> {
    let mut out = vec![0; len];
    source.read_into(start as u64, &mut out)?;
    Ok(out)
}
