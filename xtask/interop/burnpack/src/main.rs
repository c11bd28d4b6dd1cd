//! Files of burnpack-format read by Burn's own `burn-pack`, its files read by ours, and the bytes
//! of both compared: `cargo run --release --manifest-path xtask/interop/burnpack/Cargo.toml`.
//!
//! Exits with 1 where anything differs, except where the two are meant to: the list is below.

mod peer;
mod set;

use std::collections::BTreeMap;
use std::panic;
use std::process::ExitCode;

use burnpack_format::{Archive, Builder, Kind, VerifyOptions};
use test_data::Expect;

use set::Set;

/// What one release of Burn's crate made of a file, or of what it was told to write.
pub struct Peer {
    name: &'static str,
    write: fn(&Set) -> Vec<u8>,
    write_file: fn(&Set, &std::path::Path),
    read: fn(Vec<u8>) -> Result<Set, String>,
    read_file: fn(&std::path::Path) -> Result<Set, String>,
}

const PEERS: [Peer; 2] = [peer::v0_22::PEER, peer::v0_23::PEER];

/// Hand-assembled files of which Burn's reader thinks otherwise, and why that is right.
const DIFFERENCES: &[(&str, &str)] = &[
    // Older generations, which Burn no longer reads.
    (
        "bool_legacy",
        "burn-store 0.19 and 0.20 wrote bools as a plain text",
    ),
    ("packed", "burn-store 0.19 wrote no padding"),
    (
        "packed_multiples_of_256",
        "burn-store 0.19 wrote no padding",
    ),
    ("packed_trailing", "burn-store 0.19 wrote no padding"),
    ("quant_old_u32", "burn-store 0.19's name for packed values"),
    // CBOR that its library gives up on.
    (
        "indefinite_lengths",
        "keys and variants in chunks are well-formed",
    ),
    (
        "unknown_keys",
        "simple values that mean nothing are well-formed",
    ),
    (
        "unknown_deepest",
        "Burn counts the map around the value as a level",
    ),
    // Damage that it does not see.
    ("nested_chunks", "RFC 8949: chunks have a length"),
    ("trailing_metadata", "bytes that belong to nothing"),
    ("name_duplicate", "one of two tensors would be lost"),
    ("metadata_duplicate", "one of two pairs would be lost"),
    ("scalar_duplicate", "one of two scalars would be lost"),
    ("duplicate_unknown", "keys of a map are unique"),
    ("descriptor_duplicate_unknown", "keys of a map are unique"),
    ("misaligned", "no writer of the aligned layout does that"),
    (
        "misaligned_trailing",
        "no writer of the aligned layout does that",
    ),
    (
        "overlap_same",
        "a file of one range under many names could take any memory",
    ),
    (
        "overlap_within",
        "a file of one range under many names could take any memory",
    ),
    ("version_0", "no release writes it"),
    // Schemes of the older generation, which it takes for one f32 scale, without an error.
    ("scheme_no_param", "half of an older scheme"),
    ("scheme_no_level", "half of an older scheme"),
    ("scheme_mixed", "both generations at once"),
    ("scheme_level", "an unknown level, ignored"),
];

fn main() -> ExitCode {
    let sets = set::all();
    let mut failures = Vec::new();
    for peer in &PEERS {
        let mut figures = Figures::default();
        for (name, set) in &sets {
            if let Err(what) = exchange(peer, set, &mut figures) {
                failures.push(format!("burn-pack {}: {name}: {what}", peer.name));
            }
        }
        println!(
            "burn-pack {}: {} files, {} tensors, {} metadata pairs, {} scalars equal both ways; \
             {} bytes equal",
            peer.name,
            figures.files,
            figures.tensors,
            figures.metadata,
            figures.scalars,
            figures.bytes
        );
        verdicts(peer, &mut failures);
    }
    for failure in &failures {
        eprintln!("{failure}");
    }
    if failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[derive(Default)]
struct Figures {
    files: usize,
    tensors: usize,
    metadata: usize,
    scalars: usize,
    bytes: usize,
}

/// Both write the same set; the bytes must be equal, and each must read the other's.
fn exchange(peer: &Peer, set: &Set, figures: &mut Figures) -> Result<(), String> {
    let ours = build(set).to_vec().map_err(|error| error.to_string())?;
    let theirs = (peer.write)(set);
    let metadata_end = 10 + u32::from_le_bytes([theirs[6], theirs[7], theirs[8], theirs[9]]);
    let metadata_end = usize::try_from(metadata_end).expect("small");
    if ours.get(..metadata_end) != theirs.get(..metadata_end) {
        return Err("header or metadata bytes differ".into());
    }
    if ours != theirs {
        return Err("data bytes differ".into());
    }
    let theirs = Archive::from_bytes(theirs).map_err(|error| error.to_string())?;
    set.compare(&of(&theirs)?, "their file in our reader")?;
    set.compare(&(peer.read)(ours.clone())?, "our file in their reader")?;

    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("ours.bpk");
    build(set)
        .write_file(&path)
        .map_err(|error| error.to_string())?;
    set.compare(
        &(peer.read_file)(&path)?,
        "our file on disk in their reader",
    )?;
    let path = folder.path().join("theirs.bpk");
    (peer.write_file)(set, &path);
    let theirs = Archive::open(&path).map_err(|error| error.to_string())?;
    set.compare(&of(&theirs)?, "their file on disk in our reader")?;

    figures.files += 1;
    figures.tensors += set.tensors.len();
    figures.metadata += set.metadata.len();
    figures.scalars += set.scalars.len();
    figures.bytes += ours.len();
    Ok(())
}

fn build(set: &Set) -> Builder {
    let mut builder = Builder::new();
    for tensor in &set.tensors {
        let shape = burnpack_format::Shape::new(&tensor.dims).expect("small");
        let data = burnpack_format::Bytes::from(tensor.data.clone());
        let mut options = burnpack_format::TensorOptions::new();
        if let Some(id) = tensor.param_id {
            options = options.with_param_id(id);
        }
        builder
            .coded_with(&tensor.name, tensor.code.clone(), shape, data, options)
            .expect("sets can be written");
    }
    for (key, value) in &set.metadata {
        builder.metadata(key, value).expect("unique");
    }
    for (name, scalar) in &set.scalars {
        builder.scalar(name, scalar.clone()).expect("unique");
    }
    builder
}

/// What is in an archive.
fn of(archive: &Archive) -> Result<Set, String> {
    let mut set = Set::default();
    for entry in archive.entries() {
        let data = archive.data(entry).map_err(|error| error.to_string())?;
        let data = data
            .read(0..data.size())
            .map_err(|error| error.to_string())?;
        set.tensors.push(set::Tensor {
            name: entry.name().into(),
            code: entry.dtype_code().clone(),
            dims: entry.shape().dims().to_vec(),
            data: data.to_vec(),
            param_id: entry.param_id(),
        });
    }
    for meta in archive.metadata() {
        set.metadata.insert(meta.key().into(), meta.value().into());
    }
    for scalar in archive.scalars() {
        set.scalars
            .insert(scalar.name().into(), scalar.value().clone());
    }
    Ok(set)
}

/// Both judge the hand-assembled files; where they differ it must be on the list.
fn verdicts(peer: &Peer, failures: &mut Vec<String>) {
    let mut known: BTreeMap<&str, &str> = DIFFERENCES.iter().copied().collect();
    let (mut same, mut differing) = (0, 0);
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    for case in test_data::cases("burnpack").expect("cases") {
        let ours = judge(&case.bytes);
        let expected = matches!(case.expect, Expect::Valid);
        if ours != expected {
            failures.push(format!("our reader: {}", case.name));
        }
        // Some files make it panic, which is no way to take a file either.
        let theirs = panic::catch_unwind(|| (peer.read)(case.bytes.clone()))
            .unwrap_or_else(|_| Err("panics".into()));
        if theirs.is_ok() == ours {
            same += 1;
        } else if known.remove(case.name.as_str()).is_some() {
            differing += 1;
        } else {
            let theirs = theirs.err().unwrap_or_else(|| "reads it".into());
            failures.push(format!(
                "burn-pack {}: {}: ours {}, theirs {theirs}",
                peer.name,
                case.name,
                if ours { "reads it" } else { "refuses it" },
            ));
        }
    }
    panic::set_hook(hook);
    for name in known.keys() {
        failures.push(format!("burn-pack {}: {name} no longer differs", peer.name));
    }
    println!(
        "burn-pack {}: {same} hand-assembled files judged alike, {differing} otherwise for a reason",
        peer.name
    );
}

/// Whether our reader takes all of a file.
fn judge(bytes: &[u8]) -> bool {
    let judged = Archive::from_bytes(bytes.to_vec()).and_then(|archive| {
        let report = archive.verify(&VerifyOptions::default())?;
        Ok(!report.has_failed() && !report.has_unsupported())
    });
    match judged {
        Ok(judged) => judged,
        Err(error) => {
            assert!(matches!(
                error.kind(),
                Kind::Invalid | Kind::Limit | Kind::Unsupported
            ));
            false
        }
    }
}
