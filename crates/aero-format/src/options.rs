use crate::Limits;

/// How to open a file.
///
/// ```
/// use aero_format::{Limits, ReadOptions};
///
/// let options = ReadOptions::default()
///     .with_limits(Limits::default())
///     .with_check_control(false)
///     .with_check_data(true) // hold data against its hash
///     .with_salvage(true); // open what the reference writer overran
/// assert!(!options.check_control && options.check_data && options.salvage);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Limits on what the reader accepts.
    pub limits: Limits,
    /// Whether to check header, TOC and string table against IHSH, where there is one. On by
    /// default.
    pub check_control: bool,
    /// Whether to hold the data of a tensor that is read against its hash, or where it has none
    /// against its shard's, which is then read once as a whole. Off by default.
    pub check_data: bool,
    /// Open files whose tensor index overran the weights, as the reference writer leaves them
    /// when tensor hashes are on, and files that were cut within the weights. A tensor is then
    /// read only if its own hash is right; one without where the hash of its shard is, or where
    /// it lies before the cut. Off by default.
    pub salvage: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            check_control: true,
            check_data: false,
            salvage: false,
        }
    }
}

impl ReadOptions {
    /// These options with other limits.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// These options with or without a check against IHSH.
    #[must_use]
    pub const fn with_check_control(mut self, check_control: bool) -> Self {
        self.check_control = check_control;
        self
    }

    /// These options with or without a check of the data that is read.
    #[must_use]
    pub const fn with_check_data(mut self, check_data: bool) -> Self {
        self.check_data = check_data;
        self
    }

    pub(crate) const fn checks_data(&self) -> bool {
        self.check_data || self.salvage
    }

    /// These options with or without salvage.
    #[must_use]
    pub const fn with_salvage(mut self, salvage: bool) -> Self {
        self.salvage = salvage;
        self
    }
}
