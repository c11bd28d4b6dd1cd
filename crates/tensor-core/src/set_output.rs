use std::io;

/// Where the files of a set go, if not to a folder of this disk: they come one after the other, the one that
/// names all others last.
///
/// What is written goes to the file that was begun last. Whether the files are there as they are written, or
/// all at the end, is for the implementation to say.
///
/// ```
/// use std::io::{self, Write};
/// use tensor_core::SetOutput;
///
/// /// Files in memory.
/// #[derive(Default)]
/// struct Held(Vec<(String, Vec<u8>)>);
///
/// impl SetOutput for Held {
///     fn begin(&mut self, name: &str, _len: Option<u64>) -> io::Result<()> {
///         self.0.push((name.to_owned(), Vec::new()));
///         Ok(())
///     }
/// }
///
/// impl Write for Held {
///     fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
///         let (_, file) = self.0.last_mut().ok_or(io::ErrorKind::NotFound)?;
///         file.write(bytes)
///     }
///
///     fn flush(&mut self) -> io::Result<()> {
///         Ok(())
///     }
/// }
/// let mut held = Held::default();
/// held.begin("part-000.aero", Some(4))?;
/// held.write_all(b"AERO")?;
/// assert_eq!(held.0[0].1, b"AERO");
/// # Ok::<(), io::Error>(())
/// ```
pub trait SetOutput: io::Write {
    /// Begins the file of this name, which lies beside that of the set; the one before it is complete. `len` is
    /// its length, as far as it is known.
    ///
    /// # Errors
    /// What keeps it from being written, or the one before from being kept.
    fn begin(&mut self, name: &str, len: Option<u64>) -> io::Result<()>;
}
