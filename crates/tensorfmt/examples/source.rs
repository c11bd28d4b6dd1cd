//! Opens a file that lies in pieces, as one source of bytes.
//!
//! `cargo run -p tensorfmt --example source -- PIECE..`

#![allow(clippy::print_stdout, reason = "an example prints")]

use tensorfmt::{Archive, FileSource, Source, SourceError};

/// Files that follow each other, each with the offset at which it starts.
struct Pieces(Vec<(u64, FileSource)>);

impl Pieces {
    fn open(paths: impl Iterator<Item = String>) -> Result<Self, tensorfmt::Error> {
        let mut pieces = Vec::new();
        let mut start = 0;
        for path in paths {
            let piece = FileSource::open(path)?;
            let size = piece.size();
            pieces.push((start, piece));
            start += size;
        }
        Ok(Self(pieces))
    }
}

impl Source for Pieces {
    fn size(&self) -> u64 {
        self.0.iter().map(|(_, piece)| piece.size()).sum()
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        self.check(offset, out.len() as u64)?;
        let (mut offset, mut out) = (offset, out);
        for (start, piece) in &self.0 {
            let end = start + piece.size();
            if out.is_empty() || offset >= end {
                continue;
            }
            let here = usize::try_from(end - offset).unwrap_or(usize::MAX);
            let (now, later) = out.split_at_mut(here.min(out.len()));
            piece.read_into(offset - start, now)?;
            offset += now.len() as u64;
            out = later;
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pieces = Pieces::open(std::env::args().skip(1))?;
    let archive = Archive::from_source(pieces, &Default::default())?;
    for entry in &archive {
        println!("{entry}");
    }
    Ok(())
}
