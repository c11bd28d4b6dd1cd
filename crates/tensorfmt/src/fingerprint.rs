//! What several workers make sure that they read the same by.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use tensor_core::Source;

use crate::json::hex;
use crate::{Archive, Result};

/// How many places of the data are looked at.
const PROBES: u64 = 16;
/// How many bytes are read at each.
const PROBE_BYTES: u64 = 1 << 10;

/// A digest of fields, none of which can be taken for another.
#[derive(Default)]
pub(crate) struct Fingerprint(Sha256);

impl Fingerprint {
    /// Adds a field: its length, then its bytes.
    pub(crate) fn field(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let bytes = bytes.as_ref();
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    /// Adds a number.
    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.field(number.to_le_bytes())
    }

    /// Adds a few samples of the data of tensors, spread evenly over all of it: what is listed in the same way
    /// may be another model. `source` gives the data of one, or none where there is nothing to be had.
    pub(crate) fn samples(
        &mut self,
        lens: &[u64],
        source: impl Fn(usize) -> Option<Arc<dyn Source>>,
    ) -> Result<&mut Self> {
        let total = lens.iter().fold(0u128, |sum, len| sum + u128::from(*len));
        let mut before = 0u128;
        let mut probe = 0u64;
        let place = |probe: u64| total * u128::from(2 * probe + 1) / u128::from(2 * PROBES);
        for (at, len) in lens.iter().enumerate() {
            let end = before + u128::from(*len);
            let mut known = None;
            while probe < PROBES && place(probe) < end {
                let offset = u64::try_from(place(probe).saturating_sub(before)).unwrap_or(0);
                probe += 1;
                let data: &Option<Arc<dyn Source>> = known.get_or_insert_with(|| source(at));
                self.sample(data.as_ref(), offset)?;
            }
            before = end;
        }
        Ok(self)
    }

    fn sample(&mut self, data: Option<&Arc<dyn Source>>, offset: u64) -> Result<()> {
        let Some(data) = data else {
            self.field("none");
            return Ok(());
        };
        let size = data.size();
        // What can only be read from its start is not read to the middle for a sample.
        let from = match data.is_random_access() {
            true => offset.min(size),
            false => 0,
        };
        let to = size.min(from.saturating_add(PROBE_BYTES));
        match data.read(from..to) {
            Ok(bytes) => self.field(bytes),
            Err(error) if error.kind() == tensor_core::Kind::Io => return Err(error.into()),
            // Damage is the same for everybody.
            Err(_) => self.field("damaged"),
        };
        Ok(())
    }

    /// The digest in lower-case hex.
    pub(crate) fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}

impl Archive {
    /// A digest that copies of a file share, and other files hardly do: of what it lists, and of 16 samples of
    /// its data of up to 1 KiB each. Those who work on parts of it tell by this that they read the same.
    ///
    /// ```
    /// use tensorfmt::{Archive, Tensor, safetensors};
    ///
    /// let file = |value: f32| {
    ///     let mut builder = safetensors::Builder::new();
    ///     builder.tensor("w", Tensor::from_slice(&[value; 4], &[4]).unwrap())?;
    ///     Archive::from_bytes(builder.to_vec()?)
    /// };
    /// assert_eq!(file(1.0)?.fingerprint()?, file(1.0)?.fingerprint()?);
    /// assert_ne!(file(1.0)?.fingerprint()?, file(2.0)?.fingerprint()?);
    /// # Ok::<(), tensorfmt::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the source fails with.
    pub fn fingerprint(&self) -> Result<String> {
        let mut fingerprint = Fingerprint::default();
        fingerprint
            .field(self.format().name())
            .field(self.version());
        fingerprint.number(self.file_len());
        let mut lens = Vec::with_capacity(self.len());
        for entry in self.entries() {
            fingerprint.field(entry.name());
            fingerprint.field(entry.dtype_name().as_bytes());
            fingerprint.field(entry.encoding().as_bytes());
            fingerprint.number(entry.offset());
            fingerprint.number(entry.stored_len().unwrap_or(u64::MAX));
            fingerprint.number(entry.shape().rank() as u64);
            for &dim in entry.shape().dims() {
                fingerprint.number(dim);
            }
            lens.push(entry.nbytes().unwrap_or(0));
        }
        let entries = self.entries();
        let source = |at: usize| self.data(entries.get(at)?).ok();
        fingerprint.samples(&lens, source)?;
        Ok(fingerprint.finish())
    }
}
