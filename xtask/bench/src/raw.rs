//! What the machine can do without any format.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rayon::prelude::*;

/// What fits the cache of a core.
pub const WINDOW: usize = 1 << 20;

/// The sum of 64-bit words, at any alignment.
pub fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let rest = rest.iter().map(|byte| u64::from(*byte));
    words.chain(rest).fold(0, u64::wrapping_add)
}

/// A buffer that starts on a page.
pub struct Pages {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Pages {
    pub fn new(len: usize) -> Self {
        let bytes = vec![0; len + 4095];
        let start = bytes.as_ptr().align_offset(4096);
        Self { bytes, start, len }
    }

    pub fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

pub fn read_at(file: &File, offset: u64, out: &mut [u8]) {
    file.read_exact_at(out, offset).expect("read");
}

/// CRC-32C of each part of a map, all cores.
pub fn crc32c_parts(map: &[u8], ranges: &[(u64, u64)]) -> u32 {
    let crc = |&(offset, len): &(u64, u64)| {
        let start = offset as usize;
        crc32c::crc32c(&map[start..start + len as usize])
    };
    ranges.par_iter().map(crc).reduce(|| 0, |a, b| a ^ b)
}

/// CRC-32C of each part of a file, read in windows, all cores.
pub fn crc32c_file(file: &File, ranges: &[(u64, u64)]) -> u32 {
    let crc = |buffer: &mut Pages, &(offset, len): &(u64, u64)| {
        let mut crc = 0;
        let mut at = 0;
        while at < len {
            let take = (len - at).min(WINDOW as u64);
            let window = &mut buffer.as_mut()[..take as usize];
            read_at(file, offset + at, window);
            crc = crc32c::crc32c_append(crc, window);
            at += take;
        }
        crc
    };
    ranges
        .par_iter()
        .map_init(|| Pages::new(WINDOW), crc)
        .reduce(|| 0, |a, b| a ^ b)
}

/// BLAKE3 of a whole range, all cores.
pub fn blake3_map(bytes: &[u8]) -> blake3::Hash {
    blake3::Hasher::new().update_rayon(bytes).finalize()
}

/// BLAKE3 of the parts of a whole, all cores.
pub fn blake3_parts(parts: &[&[u8]]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update_rayon(part);
    }
    hasher.finalize()
}

/// BLAKE3 of a range of a file, read in windows, all cores: each thread hashes a subtree of its
/// own, so that windows stay in its cache.
pub fn blake3_file(file: &File, offset: u64, len: u64) -> u64 {
    const PART: u64 = 1 << 23;
    let parts = len.div_ceil(PART);
    let hash = |buffer: &mut Pages, part: u64| {
        let mut hasher = blake3::Hasher::new();
        let end = ((part + 1) * PART).min(len);
        let mut at = part * PART;
        while at < end {
            let take = (end - at).min(WINDOW as u64);
            let window = &mut buffer.as_mut()[..take as usize];
            read_at(file, offset + at, window);
            hasher.update(window);
            at += take;
        }
        u64::from(hasher.finalize().as_bytes()[0])
    };
    (0..parts)
        .into_par_iter()
        .map_init(|| Pages::new(WINDOW), hash)
        .sum()
}

/// A new file with the parts one after the other, and a CRC-32C of each beside that if `crc`.
pub fn write_new(path: &Path, parts: &[&[u8]], crc: bool) -> File {
    let mut file = File::create(path).expect("create");
    for part in parts {
        if crc {
            // In steps, so that the second reader finds the bytes in the cache.
            let mut sum = 0;
            for window in part.chunks(WINDOW) {
                sum = crc32c::crc32c_append(sum, window);
                file.write_all(window).expect("write");
            }
            std::hint::black_box(sum);
        } else {
            file.write_all(part).expect("write");
        }
    }
    file
}

/// The same through a temporary file that is flushed and takes the place of `path`.
pub fn write_durable(path: &Path, parts: &[&[u8]], crc: bool) {
    let temporary = path.with_extension("raw.tmp");
    let file = write_new(&temporary, parts, crc);
    file.sync_all().expect("sync");
    std::fs::rename(&temporary, path).expect("rename");
    let folder = path.parent().expect("folder");
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .expect("sync");
}
