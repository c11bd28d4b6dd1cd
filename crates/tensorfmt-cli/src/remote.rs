//! Addresses in place of paths: objects in stores and files on web servers, in builds that have the feature.

#[cfg(feature = "remote")]
pub(crate) use on::*;

#[cfg(not(feature = "remote"))]
pub(crate) use off::*;

/// The schemes that are read, with the feature or without.
#[cfg(not(feature = "remote"))]
const SCHEMES: [&str; 9] = [
    "s3", "s3a", "gs", "az", "abfs", "abfss", "http", "https", "file",
];

#[cfg(feature = "remote")]
mod on {
    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::{Arc, OnceLock};
    use std::time::Duration;

    use tensor_core::{SinkError, Source};
    use tensorfmt::convert::Plan;
    use tensorfmt::tensor_remote::{Problem, RemoteError, Scheme};
    use tensorfmt::{
        Archive, Elsewhere, Error, ReadOptions, Remote, RemoteAddress, RemoteOptions, WriteOptions,
    };

    use crate::cli::Common;
    use crate::failure::{Failure, complain, exit_code};
    use crate::output::escape;
    use crate::size;

    /// What all addresses of one run share, made when the first is met.
    #[derive(Debug, Default)]
    pub(crate) struct Session(OnceLock<Remote>);

    /// An address that is read or written.
    pub(crate) struct Object {
        address: RemoteAddress,
        remote: Remote,
        /// Whether addresses that it names are opened.
        follows: bool,
        quiet: bool,
    }

    /// What goes to the addresses that files of this disk name.
    pub(crate) struct Links(Option<Remote>);

    /// What a path names: a file, or an object, with what messages call it. A file of that name comes first.
    pub(crate) fn parse(
        path: &Path,
        common: &Common,
    ) -> Result<(PathBuf, Option<Object>), Failure> {
        let text = path.to_str().filter(|_| !path.exists());
        let address = match text.map(RemoteAddress::parse) {
            Some(parsed) => parsed.map_err(|error| failure(&error))?,
            None => None,
        };
        let Some(address) = address else {
            return Ok((path.to_path_buf(), None));
        };
        if let Some(local) = address.local_path() {
            return Ok((local.to_path_buf(), None));
        }
        let object = Object {
            remote: session(common)?.clone(),
            follows: !common.remote.is_empty(),
            quiet: common.quiet,
            address,
        };
        Ok((object.shown(), Some(object)))
    }

    impl Object {
        /// What messages call it, without secrets.
        fn shown(&self) -> PathBuf {
            PathBuf::from(self.address.to_string())
        }

        pub(crate) fn open(&self, options: &ReadOptions) -> Result<Archive, Error> {
            let mut parts = Elsewhere::beside(&self.remote, &self.address);
            if self.follows {
                parts = parts.following();
            }
            let said = parts.clone();
            let name = self.address.file_name();
            let opened = Archive::open_parts(&name, Arc::new(parts), options);
            for name in said.take_unmarked().iter().filter(|_| !self.quiet) {
                complain(&escape(&format!(
                    "note: {name}: the server sends neither ETag nor time of change, so that a change \
                    while it is read shows only in its size"
                )));
            }
            opened
        }

        pub(crate) fn source(&self) -> Result<Arc<dyn Source>, Error> {
            Ok(Arc::new(self.remote.open(&self.address)?))
        }

        /// Fails where an object exists already, unless it may be replaced, and where nothing can be written.
        pub(crate) fn may_write(&self, force: bool) -> Result<(), Failure> {
            if self.address.scheme() == Scheme::Http {
                // Which refuses it before any request.
                let created = self.remote.create(&self.address, true, None);
                created.map_err(|error| failure(&error))?;
            }
            self.are_absent(std::slice::from_ref(&self.address), force)
        }

        /// The same of the objects beside it that a plan writes as well. A set may not be written over what it is
        /// made of.
        pub(crate) fn may_write_beside<'a>(
            &self,
            plan: &Plan,
            mut inputs: impl Iterator<Item = &'a Self>,
            force: bool,
        ) -> Result<(), Failure> {
            let about = |error: Error| Failure::about(&self.shown(), &error);
            let mut written = plan.addresses_beside(&self.address).map_err(about)?;
            if written.is_empty() {
                return Ok(());
            }
            self.are_absent(&written, force)?;
            written.push(self.address.clone());
            // An index that was read is not open any more.
            let is_input = inputs.any(|input| input.address == self.address);
            let is_read = |address: &&RemoteAddress| {
                self.remote.is_open(address) || is_input && **address == self.address
            };
            match written.iter().find(is_read) {
                Some(read) => Err(Failure::usage(format!("{read} is a file of the input"))),
                None => Ok(()),
            }
        }

        /// Fails where it is read as an input.
        pub(crate) fn is_not_input(&self) -> Result<(), Failure> {
            match self.remote.is_open(&self.address) {
                true => Err(Failure::usage(format!(
                    "{} is a file of the input",
                    self.address
                ))),
                false => Ok(()),
            }
        }

        fn are_absent(&self, addresses: &[RemoteAddress], force: bool) -> Result<(), Failure> {
            if force {
                return Ok(());
            }
            let sizes = self.remote.sizes(addresses);
            let sizes = sizes.map_err(|error| failure(&error))?;
            match addresses.iter().zip(sizes).find(|(_, size)| size.is_some()) {
                Some((address, _)) => Err(exists(address)),
                None => Ok(()),
            }
        }

        /// Writes what is planned; it appears whole or not at all.
        pub(crate) fn write(&self, plan: &Plan, options: &WriteOptions<'_>) -> Result<(), Failure> {
            let written = plan.write_address(&self.address, &self.remote, options);
            written.map_err(|error| of_write(&self.shown(), &error))
        }

        /// Writes one object, which appears whole or not at all. `len` is its length, as far as it is known.
        pub(crate) fn put(
            &self,
            len: Option<u64>,
            force: bool,
            write: impl FnOnce(&mut dyn io::Write) -> Result<(), Error>,
        ) -> Result<(), Failure> {
            let created = self.remote.create(&self.address, force, len);
            let mut upload = created.map_err(|error| failure(&error))?;
            write(&mut upload).map_err(|error| of_write(&self.shown(), &error))?;
            upload.finish().map_err(|error| failure(&error))
        }
    }

    impl Links {
        pub(crate) fn of(common: &Common) -> Result<Self, Failure> {
            Ok(Self(match common.remote.is_empty() {
                true => None,
                false => Some(session(common)?.clone()),
            }))
        }

        /// Opens a file of this disk.
        pub(crate) fn open(&self, path: &Path, options: &ReadOptions) -> Result<Archive, Error> {
            match &self.0 {
                Some(remote) => {
                    let links = Arc::new(Elsewhere::linked(remote));
                    Archive::open_linked(path, links, options)
                }
                None => Archive::open_with(path, options),
            }
        }
    }

    fn session(common: &Common) -> Result<&Remote, Failure> {
        if let Some(remote) = common.session.0.get() {
            return Ok(remote);
        }
        let mut options = RemoteOptions::default();
        for origin in common.remote.iter().filter(|origin| !origin.is_empty()) {
            options = options.with_origin(origin);
        }
        for (name, value) in &common.settings.store {
            options = options.with_store(name, value);
        }
        for text in &common.limit {
            if let Some((name, value)) = text.split_once('=') {
                let value = size::bytes(value);
                let value =
                    value.map_err(|why| Failure::usage(format!("--limit {text:?}: {why}")))?;
                set(&mut options, name, value);
            }
        }
        let made = Remote::new(options).map_err(|error| failure(&error))?;
        Ok(common.session.0.get_or_init(|| made))
    }

    /// Sets the limit of this name, if it is one of these.
    fn set(options: &mut RemoteOptions, name: &str, value: u64) -> bool {
        let count = usize::try_from(value).unwrap_or(usize::MAX);
        match name {
            "bytes_in_flight" => options.bytes_in_flight = count,
            "concurrent_requests" => options.concurrent_requests = count,
            "max_requests" => options.max_requests = Some(value),
            "total_time" => options.total_time = Some(Duration::from_secs(value)),
            "request_timeout" => options.request_timeout = Duration::from_secs(value),
            "retries" => options.retries = count,
            _ => return false,
        }
        true
    }

    /// Whether a limit is one of requests and not of files.
    pub(crate) fn is_limit(name: &str) -> bool {
        set(&mut RemoteOptions::default(), name, 1)
    }

    fn failure(error: &RemoteError) -> Failure {
        match error.problem() {
            Problem::Exists => exists(&error.address()),
            _ => Failure::new(exit_code(error.kind()), error.to_string()),
        }
    }

    /// An error while an object was written; that it is there already is one of usage.
    fn of_write(shown: &Path, error: &Error) -> Failure {
        // Who only writes bytes has it as an error of `io`.
        if let Error::Sink(SinkError::Io(inner)) = error {
            let inner = inner.get_ref().and_then(|inner| inner.downcast_ref());
            if let Some(error) = inner {
                return failure(error);
            }
        }
        match error.rule_id() {
            Some("remote.exists") => Failure::usage(format!("{error}; --force overwrites it")),
            _ => Failure::about(shown, error),
        }
    }

    fn exists(address: &dyn std::fmt::Display) -> Failure {
        Failure::usage(format!("{address} exists; --force overwrites it"))
    }
}

#[cfg(not(feature = "remote"))]
mod off {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use tensor_core::Source;
    use tensorfmt::convert::Plan;
    use tensorfmt::{Archive, Error, ReadOptions, WriteOptions};

    use crate::cli::Common;
    use crate::failure::{Failure, IO};

    /// Never there: an address ends the run.
    pub(crate) enum Object {}

    /// Files of this disk, wherever they lead.
    pub(crate) struct Links;

    pub(crate) fn parse(path: &Path, _: &Common) -> Result<(PathBuf, Option<Object>), Failure> {
        let text = path.to_str().unwrap_or_default();
        let scheme = text
            .split_once("://")
            .map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest));
        let (scheme, rest) = match scheme {
            Some((scheme, rest)) if super::SCHEMES.contains(&&*scheme) && !path.exists() => {
                (scheme, rest)
            }
            _ => return Ok((path.to_path_buf(), None)),
        };
        // What is around may be a secret.
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
        Err(Failure::new(
            IO,
            format!(
                "{scheme}://{rest}: this build reads and writes nothing elsewhere (feature `remote` is off): \
                download it first"
            ),
        ))
    }

    impl Object {
        pub(crate) fn open(&self, _: &ReadOptions) -> Result<Archive, Error> {
            match *self {}
        }

        pub(crate) fn source(&self) -> Result<Arc<dyn Source>, Error> {
            match *self {}
        }

        pub(crate) fn may_write(&self, _: bool) -> Result<(), Failure> {
            match *self {}
        }

        pub(crate) fn is_not_input(&self) -> Result<(), Failure> {
            match *self {}
        }

        pub(crate) fn may_write_beside<'a>(
            &self,
            _: &Plan,
            _: impl Iterator<Item = &'a Self>,
            _: bool,
        ) -> Result<(), Failure> {
            match *self {}
        }

        pub(crate) fn write(&self, _: &Plan, _: &WriteOptions<'_>) -> Result<(), Failure> {
            match *self {}
        }

        pub(crate) fn put(
            &self,
            _: Option<u64>,
            _: bool,
            _: impl FnOnce(&mut dyn std::io::Write) -> Result<(), Error>,
        ) -> Result<(), Failure> {
            match *self {}
        }
    }

    impl Links {
        pub(crate) fn of(common: &Common) -> Result<Self, Failure> {
            match common.remote.is_empty() {
                true => Ok(Self),
                false => Err(Failure::usage(
                    "--remote: this build reads nothing elsewhere (feature `remote` is off)",
                )),
            }
        }

        pub(crate) fn open(&self, path: &Path, options: &ReadOptions) -> Result<Archive, Error> {
            Archive::open_with(path, options)
        }
    }

    pub(crate) fn is_limit(_: &str) -> bool {
        false
    }
}
