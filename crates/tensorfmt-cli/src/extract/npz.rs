//! An .npz: a zip archive of .npy files, which NumPy opens by the names of the tensors.

use std::io::{self, Write};

use tensor_core::{Output, Sink, SinkError, Ticker, TransferError};
use tensorfmt::Error;
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, ZipWriter};

use super::Piece;

/// What takes bytes as something to write to.
struct Writer<O>(O);

impl<O: Output> Write for Writer<O> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.put(bytes).map_err(|error| match error {
            SinkError::Io(error) => error,
            error => io::Error::other(error),
        })?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the pieces one after the other, each with its name and its head; nothing is held, and no place is
/// come back to.
pub(super) fn write<O: Output>(
    out: O,
    pieces: &[(String, Vec<u8>, Piece)],
    ticker: &Ticker<'_>,
) -> Result<O, Error> {
    let mut zip = ZipWriter::new_stream(Writer(out));
    for (name, head, piece) in pieces {
        let len = (head.len() as u64).saturating_add(piece.data.size());
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            // Lengths of 64 bits, where 32 may not do.
            .large_file(len >= u64::from(u32::MAX));
        zip.start_file(format!("{name}.npy"), options)
            .map_err(failed)?;
        zip.write_all(head).map_err(sink)?;
        let mut data = Sink::new(zip);
        data.copy_from(&piece.data, ticker)?;
        zip = data.into_inner();
    }
    let stream: StreamWriter<Writer<O>> = zip.finish().map_err(failed)?;
    Ok(stream.into_inner().0)
}

fn sink(error: io::Error) -> Error {
    TransferError::from(SinkError::Io(error)).into()
}

fn failed(error: zip::result::ZipError) -> Error {
    match error {
        zip::result::ZipError::Io(error) => sink(error),
        error => sink(io::Error::other(error)),
    }
}
