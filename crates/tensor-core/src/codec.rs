//! What a codec is written with: fields read in order, names and shapes in bulk, bytes delivered in
//! windows, files that appear whole, and the error that every codec's is.
//!
//! Those who only hold tensors need nothing of it.

mod error;
mod stored;
mod whole;

#[doc(inline)]
pub use crate::__rules as rules;
pub use crate::archive_id::ArchiveId;
#[cfg(feature = "std")]
pub use crate::atomic::{AtomicFile, SealedFile};
pub use crate::cast::read_elements;
pub use crate::compact::{HasEntries, Names, ShapeId, Shapes, append};
pub use crate::cursor::Cursor;
pub use crate::error::ReadError;
#[cfg(feature = "std")]
pub use crate::fresh::fill;
pub use crate::names::{DuplicateName, NameTable};
pub use crate::options::Ticker;
pub use crate::patch::Patched;
pub use crate::pieces::{PieceId, Pieces};
#[cfg(feature = "std")]
pub use crate::pool::{FilePool, PooledFile};
pub use crate::sink::{Output, Sink, TransferError, hinted_vec};
pub use crate::source::{WINDOW, check_index_memory, walk};
pub use crate::unchanged::Unchanged;
pub use error::{Error, Format, Named};
pub use stored::StoredBytes;
pub use whole::write_vec;
#[cfg(feature = "std")]
pub use whole::{open_file, stale_files, write_file};
