//! What every reader must stand: all files of its format, hand-assembled and real, damaged in
//! every way of [`mutate`], each read within bounds of memory and time.
//!
//! The everyday stand-in for the fuzzer, on a stable toolchain and the same on every run.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::{alloc, corpus, mutate};

/// The longest length that files are cut to.
const LONGEST_CUT: usize = 4096;

/// How many spliced files a format gets in all.
const SPLICES: usize = 20_000;

/// What a reader may take beyond the size of the file.
const MEMORY: usize = 64 << 20;

/// The longest that one file may take. On a machine that is busy with something else a run is
/// given two more chances.
const TIME: Duration = Duration::from_secs(1);

/// The files of a format, and how they are damaged.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// The format's name.
    pub format: &'static str,
    /// Folders of the corpus that have its files.
    pub folders: &'static [&'static str],
    /// Where the structure of a file lies whose every bit is flipped, given its length: at its
    /// start, its end, or both. What lies outside of the file is left out.
    pub header: fn(usize) -> [Range<usize>; 2],
    /// Memory that a reader may take beyond the bound, for the window of a zstd frame.
    pub window: usize,
    /// Ends of the names of files that take long to read: of their damaged versions one in 61 is
    /// tried.
    pub slow: &'static [&'static str],
}

impl Gate {
    /// Cuts every file at every length up to 4 KiB and hands each to `judge`, which panics on what
    /// a reader must not do.
    pub fn truncations(&self, judge: impl Fn(Vec<u8>)) {
        for (name, bytes) in self.files() {
            let cuts = mutate::truncations(&bytes).take(LONGEST_CUT);
            for cut in cuts.step_by(self.step(&name)) {
                self.judge(&name, cut.to_vec(), &judge);
            }
        }
    }

    /// Flips every bit of every file's structure.
    pub fn header_bits(&self, judge: impl Fn(Vec<u8>)) {
        for (name, bytes) in self.files() {
            for range in (self.header)(bytes.len()) {
                let end = range.end.min(bytes.len());
                let flips = mutate::bit_flips(&bytes, range.start.min(end)..end);
                for flipped in flips.step_by(self.step(&name)) {
                    self.judge(&name, flipped, &judge);
                }
            }
        }
    }

    /// Splices all files, some 20,000 times in all.
    pub fn splices(&self, judge: impl Fn(Vec<u8>)) {
        let files = self.files();
        let each = SPLICES.div_ceil(files.len());
        for (seed, (name, bytes)) in (0..).zip(&files) {
            for spliced in mutate::mutations(bytes, seed, each).step_by(self.step(name)) {
                self.judge(name, spliced, &judge);
            }
        }
    }

    fn step(&self, name: &str) -> usize {
        // A prime, so that bits of all values are among those tried.
        let slow = self.slow.iter().any(|end| name.ends_with(end));
        if slow { 61 } else { 1 }
    }

    /// Every file with a name for messages.
    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let made = crate::cases(self.format).expect("a format with cases");
        let mut files: Vec<_> = made
            .into_iter()
            .map(|case| (case.name, case.bytes))
            .collect();
        for (path, _) in self.folders.iter().flat_map(|folder| corpus::cases(folder)) {
            // The index of a set is a text that names other files.
            if path.extension().is_none_or(|ending| ending != "json") {
                let bytes = std::fs::read(&path)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                files.push((path.display().to_string(), bytes));
            }
        }
        files
    }

    fn judge(&self, name: &str, bytes: Vec<u8>, judge: impl Fn(Vec<u8>)) {
        let most = bytes.len() + MEMORY + self.window;
        let mut longest = TIME;
        for _ in 0..3 {
            let input = bytes.clone();
            let start = Instant::now();
            let ((), peak) = alloc::peak_of(|| judge(input));
            longest = start.elapsed();
            assert!(
                peak <= most,
                "{name}: {peak} bytes of memory\n{}",
                hex(&bytes)
            );
            if longest < TIME {
                return;
            }
        }
        panic!("{name}: {longest:?}\n{}", hex(&bytes));
    }
}

/// The start of a file, to make a case of.
fn hex(bytes: &[u8]) -> String {
    let start = bytes.iter().take(512);
    start.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const GATE: Gate = Gate {
        format: "mag",
        folders: &[],
        header: |len| [0..2, len.saturating_sub(1)..len],
        window: 0,
        slow: &["demo"],
    };

    #[test]
    fn every_file_is_damaged_in_every_way() {
        let files = GATE.files();
        let count = Cell::new(0);
        let judge = |_| count.set(count.get() + 1);
        GATE.truncations(judge);
        let slow = |name: &str, count: usize| match name {
            "demo" => count.div_ceil(61),
            _ => count,
        };
        let cuts = |(name, file): &(String, Vec<u8>)| slow(name, file.len().min(4096));
        assert_eq!(count.replace(0), files.iter().map(cuts).sum::<usize>());
        GATE.header_bits(judge);
        let bits = |(name, file): &(String, Vec<u8>)| {
            let end = file.len().saturating_sub(1);
            slow(name, file.len().min(2) * 8) + slow(name, (file.len() - end) * 8)
        };
        assert_eq!(count.replace(0), files.iter().map(bits).sum::<usize>());
        GATE.splices(judge);
        let each = SPLICES.div_ceil(files.len());
        assert_eq!(count.get(), (files.len() - 1) * each + each.div_ceil(61));
    }

    #[test]
    #[should_panic(expected = "demo: 1.")]
    fn a_run_of_more_than_a_second_is_found() {
        GATE.judge("demo", vec![1], |_| std::thread::sleep(TIME));
    }
}
