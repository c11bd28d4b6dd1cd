use crate::{Error, Result};

/// How to open a file of any format.
///
/// ```
/// let mut options = tensorfmt::ReadOptions::default();
/// options.limit("max_tensor_count", 10)?;
/// assert!(options.limit("max_wishes", 3).is_err());
/// # Ok::<(), tensorfmt::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Open an AERO file whose index overran its weights, as one writer leaves it, or that was cut: only
    /// what is whole is read.
    pub salvage: bool,
    limits: Vec<(String, u64)>,
}

impl ReadOptions {
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
