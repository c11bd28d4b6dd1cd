//! Files in object stores and on web servers.

use std::sync::{Arc, Mutex, PoisonError};

use tensor_core::{Parts, Source, SourceError};
use tensor_remote::{Remote, RemoteAddress, RemoteError, RemoteSource};

use crate::{Archive, ReadOptions, Result};

/// The files beside an object, and those at the addresses that they name.
///
/// ```
/// use tensorfmt::{Elsewhere, Parts, Remote, RemoteOptions};
///
/// let remote = Remote::new(RemoteOptions::default())?;
/// let parts = Elsewhere::beside(&remote, &"s3://models/a/model.aeroset.json".parse()?);
/// assert_eq!(parts.shown("part-000.aero"), "s3://models/a/part-000.aero");
/// assert!(!parts.follows() && parts.following().follows());
/// # Ok::<(), tensorfmt::tensor_remote::RemoteError>(())
/// ```
///
/// A set on this disk may name addresses, which are asked for only if the caller says so:
///
/// ```no_run
/// use std::sync::Arc;
/// use tensorfmt::{Archive, Elsewhere, ReadOptions, Remote, RemoteOptions};
///
/// let remote = Remote::new(RemoteOptions::default())?;
/// let links = Elsewhere::linked(&remote);
/// let options = ReadOptions::default();
/// let set = Archive::open_linked("model.aeroset.json", Arc::new(links.clone()), &options)?;
/// println!("{} tensors", set.len());
/// for address in links.take_unmarked() {
///     eprintln!("{address}: a change while it is read would not be noticed");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Elsewhere {
    remote: Remote,
    beside: Option<RemoteAddress>,
    follows: bool,
    unmarked: Arc<Mutex<Vec<String>>>,
}

impl Elsewhere {
    /// The files in the folder of an object that the user named.
    #[must_use]
    pub fn beside(remote: &Remote, address: &RemoteAddress) -> Self {
        Self {
            remote: remote.clone(),
            beside: Some(address.clone()),
            follows: false,
            unmarked: Arc::default(),
        }
    }

    /// No file but those at addresses that files of this disk name.
    #[must_use]
    pub fn linked(remote: &Remote) -> Self {
        Self {
            remote: remote.clone(),
            beside: None,
            follows: true,
            unmarked: Arc::default(),
        }
    }

    /// The same, going to the addresses that files name, as far as
    /// [`Remote::open_linked`] lets it.
    #[must_use]
    pub fn following(mut self) -> Self {
        self.follows = true;
        self
    }

    /// The addresses of what was opened since the last call and is
    /// [not marked](tensor_remote::RemoteSource::is_marked): who reads it should be told. Clones share them.
    pub fn take_unmarked(&self) -> Vec<String> {
        std::mem::take(&mut *self.unmarked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What was opened, if it is there; what is not is for the set to judge.
    fn found(
        &self,
        opened: std::result::Result<RemoteSource, RemoteError>,
    ) -> std::result::Result<Option<Arc<dyn Source>>, SourceError> {
        match opened {
            Ok(source) => {
                if !source.is_marked() {
                    let mut unmarked = self.unmarked.lock().unwrap_or_else(PoisonError::into_inner);
                    unmarked.push(source.address().to_string());
                }
                Ok(Some(Arc::new(source)))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Parts for Elsewhere {
    fn open(&self, name: &str) -> Result<Option<Arc<dyn Source>>, SourceError> {
        let Some(beside) = &self.beside else {
            return Ok(None);
        };
        // Its own name may have what no name in an index has.
        let is_own = beside.file_name() == name;
        self.found(match is_own {
            true => self.remote.open(beside),
            false => beside
                .join(name)
                .and_then(|address| self.remote.open_linked(&address)),
        })
    }

    fn shown(&self, name: &str) -> String {
        let Some(beside) = &self.beside else {
            return name.to_owned();
        };
        match beside.file_name() == name {
            true => beside.to_string(),
            false => beside
                .join(name)
                .map_or_else(|_| name.to_owned(), |address| address.to_string()),
        }
    }

    fn follows(&self) -> bool {
        self.follows
    }

    fn open_address(
        &self,
        address: &str,
        below: Option<&str>,
    ) -> Result<Option<Arc<dyn Source>>, SourceError> {
        let address = match below {
            Some(name) => RemoteAddress::linked_below(address, name),
            None => RemoteAddress::linked(address),
        };
        self.found(address.and_then(|address| self.remote.open_linked(&address)))
    }
}

impl Archive {
    /// Opens the object at an address that the user named, whatever its format: its index, and of a set those
    /// of the parts, which lie beside it.
    ///
    /// ```no_run
    /// use tensorfmt::{Archive, Remote, RemoteOptions};
    ///
    /// let remote = Remote::new(RemoteOptions::default())?;
    /// let archive = Archive::open_address("s3://models/model.safetensors.index.json", &remote)?;
    /// println!("{}", archive.read("lm_head.weight")?.shape());
    /// # Ok::<(), tensorfmt::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open), that it can't be reached, or that it is no address.
    pub fn open_address(address: &str, remote: &Remote) -> Result<Self> {
        Self::open_address_with(&address.parse()?, remote, &ReadOptions::default())
    }

    /// Opens the object at an address that the user named, with `options`. To go to addresses that a set
    /// names, open it with [`open_parts`](Self::open_parts) and [`Elsewhere::following`].
    ///
    /// ```no_run
    /// use tensorfmt::{Archive, ReadOptions, Remote, RemoteOptions};
    ///
    /// let remote = Remote::new(RemoteOptions::default())?;
    /// let options = ReadOptions::default().with_check_data(true);
    /// let address = "https://example.org/model.zt".parse()?;
    /// let archive = Archive::open_address_with(&address, &remote, &options)?;
    /// println!("{archive}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`open_address`](Self::open_address).
    pub fn open_address_with(
        address: &RemoteAddress,
        remote: &Remote,
        options: &ReadOptions,
    ) -> Result<Self> {
        if let Some(path) = address.local_path() {
            return Self::open_with(path, options);
        }
        let parts = Arc::new(Elsewhere::beside(remote, address));
        Self::open_parts(&address.file_name(), parts, options)
    }
}

impl From<RemoteError> for crate::Error {
    fn from(error: RemoteError) -> Self {
        Self::Source(error.into())
    }
}
