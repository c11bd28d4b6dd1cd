use crate::{Error, Result};

/// How to open a file of any format.
///
/// ```
/// let mut options = tensorfmt::ReadOptions::default();
/// options.limit("max_tensor_count", 10)?;
/// assert!(options.limit("max_wishes", 3).is_err());
/// # Ok::<(), tensorfmt::Error>(())
/// ```
///
/// For bytes that are in memory, or come from any source:
///
/// ```
/// use tensorfmt::{Archive, Bytes, Format, ReadOptions};
///
/// # let mut builder = tensorfmt::mag::Builder::new();
/// # builder.tensor("w", tensorfmt::Tensor::from_slice(&[0.5f32, 1.5], &[2])?)?;
/// # let file = builder.to_vec()?;
/// let bytes = Bytes::from(file);
/// let options = ReadOptions::default();
/// assert_eq!(Archive::from_bytes(bytes.clone())?.len(), 1);
/// assert_eq!(Archive::from_source(bytes.clone(), &options)?.format(), Format::Mag);
/// // As one format alone, whatever the bytes look like.
/// assert!(Archive::from_source_as(bytes, Format::Aero, &options).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Open an AERO file whose index overran its weights, as one writer leaves it, or that was cut: only
    /// what is whole is read.
    pub salvage: bool,
    /// Hold the data of a tensor that is read against the checksum or hash that its file has of it. Most
    /// formats have none: [`Archive::verify_entry`](crate::Archive::verify_entry) says so of a tensor.
    pub check_data: bool,
    limits: Vec<(String, u64)>,
}

impl ReadOptions {
    /// These options with or without salvage.
    ///
    /// ```
    /// use tensorfmt::ReadOptions;
    ///
    /// let options = ReadOptions::default().with_salvage(true).with_check_data(true);
    /// assert!(options.salvage && options.check_data);
    /// ```
    #[must_use]
    pub fn with_salvage(mut self, salvage: bool) -> Self {
        self.salvage = salvage;
        self
    }

    /// These options with or without a check of the data that is read.
    ///
    /// ```
    /// use tensorfmt::ReadOptions;
    ///
    /// assert!(ReadOptions::default().with_check_data(true).check_data);
    /// ```
    #[must_use]
    pub fn with_check_data(mut self, check_data: bool) -> Self {
        self.check_data = check_data;
        self
    }

    /// Sets the limit of this name, in whichever format has one; the error of a file that is beyond a
    /// limit names it.
    ///
    /// # Errors
    /// [`Error::Usage`] where no format of this build has such a limit.
    pub fn limit(&mut self, name: &str, value: u64) -> Result<&mut Self> {
        let known = known_limits();
        if !known.contains(&name) {
            return Err(Error::Usage(format!(
                "no limit is called {name:?}; there are {}",
                known.join(", ")
            )));
        }
        self.limits.push((name.to_owned(), value));
        Ok(self)
    }

    /// What a limit was set to, last.
    pub(crate) fn value_of(&self, name: &str) -> Option<u64> {
        let mut set = self.limits.iter().rev();
        set.find(|(known, _)| known == name)
            .map(|(_, value)| *value)
    }

    /// Passes the limits on to a codec, which knows its own.
    #[allow(dead_code, reason = "a build may have few codecs, or none")]
    pub(crate) fn set_limits(&self, mut set: impl FnMut(&str, u64) -> bool) {
        for (name, value) in &self.limits {
            set(name, *value);
        }
    }
}

/// Every limit of every format of this build, sorted.
fn known_limits() -> Vec<&'static str> {
    let mut known: Vec<&'static str> = vec![crate::work::LIMIT];
    macro_rules! limits {
        (() $([$Archive:ident $feature:literal $krate:ident $($rest:tt)*])*) => {$(
            #[cfg(feature = $feature)]
            known.extend($krate::Limits::NAMES);
        )*};
    }
    archives! { limits! () }
    known.sort_unstable();
    known.dedup();
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_named_by_what_they_count() {
        let of_what = ["_count", "_bytes", "_depth", "_ratio"];
        let known = known_limits();
        assert!(known.contains(&"max_work_overhead_bytes"));
        for name in known {
            let named = name.starts_with("max_") && of_what.iter().any(|end| name.ends_with(end));
            assert!(named, "{name}");
        }
    }

    /// What bounds one thing has one name, so that a limit set once holds for files of any format.
    #[test]
    #[cfg(all(
        feature = "aero",
        feature = "burnpack",
        feature = "mag",
        feature = "safetensors",
        feature = "ztensor"
    ))]
    fn one_name_sets_the_same_limit_of_several_formats() {
        macro_rules! set {
            ($name:ident: $($krate:ident),+) => {$({
                let mut limits = $krate::Limits::default();
                assert!(limits.set(stringify!($name), u64::MAX));
                assert_eq!(limits.$name, u64::MAX);
            })+};
        }
        set!(max_tensor_count: burnpack_format, mag_format, safetensors_format, ztensor_format);
        set!(max_metadata_count: burnpack_format, mag_format, safetensors_format);
        set!(max_metadata_bytes: aero_format, burnpack_format);
        set!(max_index_overhead_bytes: burnpack_format, mag_format, safetensors_format, ztensor_format);
        set!(max_value_depth: aero_format, safetensors_format, ztensor_format);
        set!(max_dim_count: burnpack_format, ztensor_format);
    }
}
