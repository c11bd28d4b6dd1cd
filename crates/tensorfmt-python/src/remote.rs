//! Addresses in place of paths, with settings of the stores that they are of.

use std::path::Path;

use pyo3::prelude::*;
use tensorfmt::{Archive, Error, ReadOptions};

use crate::errors;

/// Settings of stores, as Python has them or as the store has them.
pub(crate) type Pairs = Vec<(String, String)>;

/// The settings for a call, by the names that the stores have. It is an error if no address is among `paths`, or if
/// no store that one is of has such a setting.
#[pyfunction]
pub(crate) fn settings(py: Python<'_>, paths: Vec<String>, pairs: Pairs) -> PyResult<Pairs> {
    if pairs.is_empty() {
        return Ok(pairs);
    }
    on::settings(&paths, pairs).map_err(|error| errors::raise(py, &error))
}

/// Whether a text is an address and no path.
#[pyfunction]
pub(crate) fn is_address(text: &str) -> bool {
    begins_like_one(text) && !Path::new(text).exists()
}

/// Schemes that this package knows, with the feature or without.
const SCHEMES: [&str; 9] = [
    "s3", "s3a", "gs", "az", "abfs", "abfss", "http", "https", "file",
];

fn begins_like_one(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        SCHEMES
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known))
    })
}

/// An archive at an address: open, with what messages call it, and what is worth knowing of the server.
pub(crate) struct Opened {
    pub(crate) archive: Archive,
    pub(crate) shown: String,
    pub(crate) notes: Vec<String>,
}

/// Opens what is at an address.
pub(crate) fn open(
    address: &str,
    settings: &[(String, String)],
    options: &ReadOptions,
) -> Result<Opened, Error> {
    on::open(address, settings, options)
}

fn no_address() -> Error {
    Error::Usage(
        "storage_options are settings for addresses, such as s3://bucket/key, and none is given"
            .into(),
    )
}

#[cfg(feature = "remote")]
mod on {
    use std::sync::Arc;

    use tensorfmt::tensor_remote::Scheme;
    use tensorfmt::{Archive, Elsewhere, Error, ReadOptions, Remote, RemoteAddress, RemoteOptions};

    use super::{Opened, Pairs, is_address, no_address};

    pub(super) fn settings(paths: &[String], pairs: Pairs) -> Result<Pairs, Error> {
        let mut schemes: Vec<Scheme> = Vec::new();
        for path in paths.iter().filter(|path| is_address(path)) {
            let address: RemoteAddress = path.parse()?;
            if address.local_path().is_none() && !schemes.contains(&address.scheme()) {
                schemes.push(address.scheme());
            }
        }
        if schemes.is_empty() {
            return Err(no_address());
        }
        let options = RemoteOptions::default().with_pairs(&schemes, pairs)?;
        Ok(options.store.into_iter().collect())
    }

    pub(super) fn open(
        address: &str,
        settings: &[(String, String)],
        options: &ReadOptions,
    ) -> Result<Opened, Error> {
        let address: RemoteAddress = address.parse()?;
        let shown = address.to_string();
        if let Some(path) = address.local_path() {
            let archive = Archive::open_with(path, options)?;
            let notes = Vec::new();
            return Ok(Opened {
                archive,
                shown,
                notes,
            });
        }
        let mut remote = RemoteOptions::default();
        for (name, value) in settings {
            remote = remote.with_store(name, value);
        }
        let parts = Elsewhere::beside(&Remote::new(remote)?, &address);
        let archive = Archive::open_parts(&address.file_name(), Arc::new(parts.clone()), options)?;
        let note = |name: &String| {
            format!(
                "{name}: the server sends neither ETag nor time of change, so that a change while it is read shows \
                only in its size"
            )
        };
        let notes = parts.take_unmarked().iter().map(note).collect();
        Ok(Opened {
            archive,
            shown,
            notes,
        })
    }
}

#[cfg(not(feature = "remote"))]
mod on {
    use tensorfmt::{Error, ReadOptions};

    use super::{Opened, Pairs, is_address, no_address};

    pub(super) fn settings(paths: &[String], _: Pairs) -> Result<Pairs, Error> {
        match paths.iter().find(|path| is_address(path)) {
            Some(address) => Err(off(address)),
            None => Err(no_address()),
        }
    }

    pub(super) fn open(
        address: &str,
        _: &[(String, String)],
        _: &ReadOptions,
    ) -> Result<Opened, Error> {
        Err(off(address))
    }

    fn off(address: &str) -> Error {
        // What is around may be a secret.
        let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
        Error::Usage(format!(
            "{scheme}://{rest}: this build of the package reads and writes nothing elsewhere (its feature `remote` is \
            off): download it first, or open a file object of fsspec"
        ))
    }
}
