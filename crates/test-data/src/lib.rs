//! Bytes to test the codecs with, made without the codecs.
//!
//! This crate depends on no crate under test. Files are assembled field by field with
//! [`LeBuffer`], so a mistake that a writer and a reader share still shows.
//!
//! - [`FORMATS`], [`cases`]: hand-assembled files, each with the verdict a reader must reach
//! - [`mutate`]: the same damaged files on every run
//! - [`gate`]: all files of a format, damaged in every way, within bounds of memory and time
//! - [`corpus`]: real files with their manifests, where they are at hand
//! - [`crowds`]: files of very many entries that share what they say
//! - [`saving_tests`]: tests about files that are the same for all codecs
//! - [`http`]: a web server that counts, and misbehaves where asked to
//! - [`alloc`]: an allocator that counts, to hold a parser to its memory bound
//!
//! ```
//! use test_data::Expect;
//!
//! let cases = test_data::cases("mag").expect("mag has cases");
//! let empty = cases.iter().find(|case| case.name == "empty").expect("a case");
//! assert_eq!(empty.expect, Expect::Valid);
//! assert!(empty.bytes.starts_with(b"MAG!"));
//! ```

#![deny(unsafe_code)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a slip in test data should stop the test at its line"
)]

use std::env;
use std::path::PathBuf;

pub mod aero;
pub mod alloc;
pub mod burnpack;
mod checksum;
pub mod corpus;
pub mod crowds;
pub mod gate;
pub mod http;
mod le_buffer;
pub mod mag;
pub mod mag_snapshots;
pub mod mutate;
pub mod primitiv;
pub mod safetensors;
mod saving;
mod xxh3;
pub mod ztensor;
mod ztensor_generations;

pub use checksum::{crc32_ieee, crc32c};
pub use le_buffer::LeBuffer;
pub use xxh3::xxh3;

/// What a reader must make of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The file opens, verifies and reads.
    Valid,
    /// The file breaks exactly this rule.
    Reject(&'static str),
    /// The file is well-formed but beyond us: what exactly, as an id.
    Unsupported(&'static str),
}

/// One hand-assembled file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Unique within its format and fit for a file name.
    pub name: String,
    /// The whole file.
    pub bytes: Vec<u8>,
    /// The verdict.
    pub expect: Expect,
    /// One line on what is special about the file.
    pub about: String,
}

impl Case {
    /// A file that must be read.
    pub fn valid(name: impl Into<String>, about: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self::new(name, about, Expect::Valid, bytes)
    }

    /// A file that must be refused by the rule with this id.
    pub fn reject(
        name: impl Into<String>,
        rule: &'static str,
        about: impl Into<String>,
        bytes: Vec<u8>,
    ) -> Self {
        Self::new(name, about, Expect::Reject(rule), bytes)
    }

    /// A file that must be told apart from a broken one.
    pub fn unsupported(
        name: impl Into<String>,
        what: &'static str,
        about: impl Into<String>,
        bytes: Vec<u8>,
    ) -> Self {
        Self::new(name, about, Expect::Unsupported(what), bytes)
    }

    fn new(
        name: impl Into<String>,
        about: impl Into<String>,
        expect: Expect,
        bytes: Vec<u8>,
    ) -> Self {
        Self {
            name: name.into(),
            bytes,
            expect,
            about: about.into(),
        }
    }
}

/// A format that has hand-assembled files.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// The name used in folders, rule ids and on the command line.
    pub name: &'static str,
    /// The extension of its fixture files, without the dot.
    pub extension: &'static str,
    /// Assembles the files.
    pub cases: fn() -> Vec<Case>,
}

/// Every format that has hand-assembled files.
pub const FORMATS: &[Format] = &[
    Format {
        name: "aero",
        extension: "aero",
        cases: aero::cases,
    },
    Format {
        name: "burnpack",
        extension: "bpk",
        cases: burnpack::cases,
    },
    Format {
        name: "mag",
        extension: "mag",
        cases: mag::cases,
    },
    Format {
        name: "primitiv",
        extension: "model",
        cases: primitiv::cases,
    },
    Format {
        name: "safetensors",
        extension: "safetensors",
        cases: safetensors::cases,
    },
    Format {
        name: "ztensor",
        extension: "zt",
        cases: ztensor::cases,
    },
];

/// The hand-assembled files of a format, or `None` where there are none.
#[must_use]
pub fn cases(format: &str) -> Option<Vec<Case>> {
    find(format).map(|found| (found.cases)())
}

/// The extension of a format's fixture files, without the dot.
#[must_use]
pub fn extension(format: &str) -> Option<&'static str> {
    find(format).map(|found| found.extension)
}

/// The folder of the workspace.
///
/// Cargo tells a test or task where its package lies when it runs it, so two checkouts may share a
/// target folder. A program that was started otherwise gets the place it was compiled in.
pub fn workspace_root() -> PathBuf {
    let running = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let compiled = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    running
        .iter()
        .chain([&compiled])
        .flat_map(|package| package.ancestors())
        .find(|folder| folder.join("crates/test-data/Cargo.toml").is_file())
        .expect("the checkout that this was compiled in is gone")
        .to_owned()
}

fn find(format: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|candidate| candidate.name == format)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_fit_for_files() {
        for format in FORMATS {
            let mut names = BTreeSet::new();
            for case in (format.cases)() {
                let plain = case
                    .name
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
                assert!(plain && !case.name.is_empty(), "{}", case.name);
                assert!(!case.about.is_empty() && !case.about.contains('\n'));
                assert!(
                    names.insert(case.name.clone()),
                    "{} appears twice",
                    case.name
                );
            }
        }
    }

    #[test]
    fn ids_start_with_the_format() {
        for format in FORMATS {
            for case in (format.cases)() {
                if let Expect::Reject(id) | Expect::Unsupported(id) = case.expect {
                    let rest = id.strip_prefix(format.name);
                    // A limit goes by the name that a caller raises it under.
                    let is_limit = id.starts_with("max_");
                    assert!(
                        rest.is_some_and(|rest| rest.starts_with('.')) || is_limit,
                        "{id}"
                    );
                }
            }
        }
    }

    #[test]
    fn no_two_cases_have_the_same_bytes() {
        for format in FORMATS {
            let mut seen = BTreeSet::new();
            for case in (format.cases)() {
                assert!(
                    seen.insert(case.bytes),
                    "{} repeats another case",
                    case.name
                );
            }
        }
    }

    #[test]
    fn cases_are_the_same_on_every_call() {
        for format in FORMATS {
            assert_eq!((format.cases)(), (format.cases)());
        }
    }

    #[test]
    fn unknown_formats_have_no_cases() {
        assert_eq!(cases("mag").map(|found| found.is_empty()), Some(false));
        assert_eq!(cases("png"), None);
        assert_eq!(extension("mag"), Some("mag"));
        assert_eq!(extension("png"), None);
    }

    #[test]
    fn workspace_root_is_that_of_the_running_package() {
        let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
        assert_eq!(package, workspace_root().join("crates/test-data"));
    }
}
