//! What is written to object stores.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;

use tensor_core::codec::{Ticker, TransferError};
use tensor_core::{Notice, SetOutput, Source, WriteOptions};
use tensor_remote::{Remote, RemoteAddress, RemoteError};

use super::{Plan, Target};
#[allow(unused_imports, reason = "a build may have no codec")]
use crate::codec;
use crate::{Error, Result};

/// The longest text of a set that is searched for the names of its files.
const MOST: u64 = 256 << 20;

impl Plan {
    /// Writes the file, or the set, at an address, which appears whole or not at all: a set's parts first, and
    /// the file that names them after all of these. A failure leaves none of them.
    ///
    /// With [`create_new`](WriteOptions::create_new) nothing is replaced. Without it a set takes the place of
    /// the one at the address, whose parts it deletes as far as it has none of their names and they are not
    /// read here; each is told to [`notice`](WriteOptions::notice).
    ///
    /// ```
    /// use tensorfmt::convert::{Model, Options, Target, plan};
    /// use tensorfmt::{Archive, Remote, RemoteAddress, RemoteOptions, Tensor, WriteOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let at = format!("file://{}/m.safetensors.index.json", folder.path().display());
    /// let mut model = Model::new();
    /// model.tensor("w", Tensor::from_slice(&[0.5f32, 1.5], &[2])?);
    /// let plan = plan(model, Target::SafetensorsSet, &Options::default())?;
    /// let remote = Remote::new(RemoteOptions::default())?;
    /// let address: RemoteAddress = at.parse()?; // as s3://models/m.safetensors.index.json
    /// for beside in plan.addresses_beside(&address)? {
    ///     assert_eq!(remote.size(&beside)?, None); // nothing that would be replaced
    /// }
    /// plan.write_address(&address, &remote, &WriteOptions::default())?;
    /// assert!(Archive::open_address(&at, &remote)?.is_set());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What the sources or the store fail with, also that something is there already; [`Error::Usage`] where a
    /// set would replace an object that is read here, and for [`in_place`](WriteOptions::in_place).
    pub fn write_address(
        &self,
        address: &RemoteAddress,
        remote: &Remote,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        if let Some(path) = address.local_path() {
            return self.write_file(path, options);
        }
        if options.in_place {
            let message = format!("{address}: an object is replaced, never written in place");
            return Err(Error::Usage(message));
        }
        if self.target.is_set() {
            return self.write_set_at(address, remote, options);
        }
        let upload = remote.create(address, !options.create_new, self.encoded_len())?;
        let mut out = Told::new(upload);
        let written = self.writer.write_to(&mut out, options);
        Ok(out.after(written)?.finish()?)
    }

    /// The addresses of the files that are written beside that at `address` as well, as
    /// [`files_beside`](Self::files_beside) has their paths.
    ///
    /// [`write_address`](Self::write_address) has an example.
    ///
    /// # Errors
    /// [`Error::Source`] of a name that no file beside it can have.
    pub fn addresses_beside(&self, address: &RemoteAddress) -> Result<Vec<RemoteAddress>> {
        let beside = self.names_beside(address).into_iter();
        let joined = beside.map(|name| address.join(&name));
        Ok(joined.collect::<Result<_, RemoteError>>()?)
    }

    fn names_beside(&self, address: &RemoteAddress) -> Vec<String> {
        let files = self.files_beside(address.file_name()).into_iter();
        let names = files.filter_map(|file| Some(file.file_name()?.to_str()?.to_owned()));
        names.collect()
    }

    fn write_set_at(
        &self,
        address: &RemoteAddress,
        remote: &Remote,
        options: &WriteOptions<'_>,
    ) -> Result<()> {
        let beside = self.addresses_beside(address)?;
        let mut written = beside.iter().chain([address]);
        if let Some(read) = written.find(|address| remote.is_open(address)) {
            return Err(Error::Usage(format!(
                "{read} is a file of the input, or read elsewhere in this process"
            )));
        }
        let stale = match options.create_new {
            true => Vec::new(),
            false => self.stale_at(address, remote, &beside),
        };
        let replace = !options.create_new;
        let set = remote.create_set(address, &self.names_beside(address), replace)?;
        let mut out = Told::new(set);
        let name = address.file_name();
        let written = self.writer.write_set(&name, &mut out, options);
        let ticker = Ticker::new(options.progress);
        if !out.after(written)?.finish(|| ticker.tick(0).is_ok())? {
            return Err(TransferError::Cancelled.into());
        }
        for address in stale {
            // What can't be deleted harms nobody: the set doesn't name it any more.
            if !remote.is_open(&address) && remote.remove(&address).is_ok() {
                let file = PathBuf::from(address.to_string());
                options.tell(&Notice::Removed { file });
            }
        }
        Ok(())
    }

    /// The parts of the set that is at an address now which have none of the names in `beside`.
    fn stale_at(
        &self,
        address: &RemoteAddress,
        remote: &Remote,
        beside: &[RemoteAddress],
    ) -> Vec<RemoteAddress> {
        // What is no set has no parts.
        let text = remote.open(address).ok().and_then(|source| {
            let size = Some(source.size()).filter(|size| *size <= MOST)?;
            source.read(0..size).ok()
        });
        let json = text.and_then(|text| serde_json::from_slice(&text).ok());
        let names = json.map_or_else(Vec::new, |json| names_in(self.target, &json));
        let mut seen: HashSet<RemoteAddress> = beside.iter().cloned().collect();
        seen.insert(address.clone());
        let in_folder = names.iter().filter(|name| !name.contains('/'));
        let mut old = Vec::new();
        for name in in_folder {
            match address.join(name) {
                Ok(part) if seen.insert(part.clone()) => old.push(part),
                _ => {}
            }
        }
        old
    }
}

/// The names of the files that the text of a set names.
fn names_in(target: Target, json: &serde_json::Value) -> Vec<String> {
    match target {
        #[cfg(feature = "aero")]
        Target::AeroSet => codec::aero::names_in(json),
        #[cfg(feature = "safetensors")]
        Target::SafetensorsSet => codec::safetensors::names_in(json),
        _ => {
            let _ = json;
            Vec::new()
        }
    }
}

/// An output that keeps the failure which an error of `io` has no place for.
struct Told<O> {
    out: O,
    failure: Option<RemoteError>,
}

impl<O> Told<O> {
    fn new(out: O) -> Self {
        Self { out, failure: None }
    }

    /// The output, after it was written to with this result.
    fn after(self, written: Result<()>) -> Result<O> {
        match (written, self.failure) {
            (Err(_), Some(failure)) => Err(failure.into()),
            (Err(error), None) => Err(error),
            (Ok(()), _) => Ok(self.out),
        }
    }

    fn note<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &done {
            let failure = error.get_ref().and_then(|error| error.downcast_ref());
            self.failure = failure.cloned();
        }
        done
    }
}

impl<O: io::Write> io::Write for Told<O> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.out.write(bytes);
        self.note(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<O: SetOutput> SetOutput for Told<O> {
    fn begin(&mut self, name: &str, len: Option<u64>) -> io::Result<()> {
        let done = self.out.begin(name, len);
        self.note(done)
    }
}
