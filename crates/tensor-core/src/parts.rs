use alloc::string::String;
use alloc::sync::Arc;

use crate::{Source, SourceError};

/// Where the files of a set come from, if not from a folder of this disk: what opens them by the names that
/// the set has for them.
///
/// The set checks that a name leads nowhere else before it asks for it. Whether addresses that a file names
/// are followed is for the implementation to say, and by default none is.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Arc;
/// use tensor_core::{Bytes, Parts, Source, SourceError};
///
/// /// Files in memory.
/// struct Held(HashMap<String, Bytes>);
///
/// impl Parts for Held {
///     fn open(&self, name: &str) -> Result<Option<Arc<dyn Source>>, SourceError> {
///         let file = self.0.get(name).cloned();
///         Ok(file.map(|bytes| Arc::new(bytes) as Arc<dyn Source>))
///     }
/// }
/// let held = Held(HashMap::from([("a.aero".into(), Bytes::from_static(b"AERO"))]));
/// assert_eq!(held.open("a.aero")?.unwrap().size(), 4);
/// assert!(held.open("b.aero")?.is_none() && !held.follows());
/// # Ok::<(), SourceError>(())
/// ```
pub trait Parts: Send + Sync {
    /// The file of this name, which is relative to that of the set itself, with `/` between folders; `None`
    /// where there is none.
    ///
    /// # Errors
    /// What keeps it from being opened.
    fn open(&self, name: &str) -> Result<Option<Arc<dyn Source>>, SourceError>;

    /// What messages call the file of this name.
    fn shown(&self, name: &str) -> String {
        name.into()
    }

    /// Whether addresses over http(s) that the set names are opened.
    fn follows(&self) -> bool {
        false
    }

    /// The file at an address, or that of a name below it. Asked only where [`follows`](Self::follows) says
    /// so.
    ///
    /// # Errors
    /// Where the address is not one to open, and as [`open`](Self::open).
    fn open_address(
        &self,
        _address: &str,
        _below: Option<&str>,
    ) -> Result<Option<Arc<dyn Source>>, SourceError> {
        Ok(None)
    }
}
