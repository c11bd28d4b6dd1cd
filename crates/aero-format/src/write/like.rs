use tensor_core::Value;

use super::{Builder, UNKNOWN};
use crate::{Archive, Result, Style};

impl Builder {
    /// Writes as another file's writer did: with its hashes, pages, shards and compression. What is
    /// set later overrides it.
    ///
    /// ```
    /// use aero_format::{Archive, Builder, Style};
    ///
    /// let mut builder = Builder::new();
    /// builder.ihsh(true);
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// let mut copy = Builder::new();
    /// copy.style(Style::of(&archive));
    /// assert_eq!(copy.to_vec()?, builder.to_vec()?);
    /// # Ok::<(), aero_format::Error>(())
    /// ```
    pub fn style(&mut self, style: Style) -> &mut Self {
        if let Some(bytes) = style.shard_bytes {
            self.max_shard_bytes(bytes);
        }
        if let Some(shards) = style.part_shards {
            self.max_part_shards(shards);
        }
        if !style.compressed {
            self.options.level = None;
        }
        self.options.phsh = style.phsh.filter(|&page_size| page_size > 0);
        self.ihsh(style.ihsh)
            .page_align(style.page_align)
            .tensor_hashes(style.tensor_hashes)
    }

    /// A builder of a file like `archive`, still without tensors: with its metadata, and its
    /// [`Style`]. Its identity is made anew from what is written.
    ///
    /// ```
    /// use aero_format::{Archive, Builder, Tensor};
    ///
    /// let mut builder = Builder::new();
    /// builder.model("gpt", "transformer").metadata("epoch", 3i64)?;
    /// builder.tensor("w", Tensor::from_slice(&[1.0f32, 2.0], &[2])?)?;
    /// builder.ihsh(true).tensor_hashes(true);
    /// let archive = Archive::from_bytes(builder.to_vec()?)?;
    /// // The same file, with one tensor changed.
    /// let mut changed = Builder::like(&archive)?;
    /// changed.tensor("w", Tensor::from_slice(&[1.0f32, 3.0], &[2])?)?;
    /// let changed = Archive::from_bytes(changed.to_vec()?)?;
    /// assert_eq!(changed.metadata()?, archive.metadata()?);
    /// assert!(changed.entry("w").ok_or("no w")?.hash_b3().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Archive::metadata`], and as [`metadata`](Self::metadata) where keys repeat.
    pub fn like(archive: &Archive) -> Result<Self> {
        let mut builder = Self::new();
        builder.style(Style::of(archive));
        for pair in archive.metadata()? {
            let (key, value) = pair.into_pair();
            match (&*key, &value) {
                ("model_name", Value::Text(name)) if name != UNKNOWN => {
                    builder.model_name(name);
                }
                ("architecture", Value::Text(name)) if name != UNKNOWN => {
                    builder.architecture(name);
                }
                _ => {}
            }
            builder.metadata(key, value)?;
        }
        Ok(builder)
    }
}
