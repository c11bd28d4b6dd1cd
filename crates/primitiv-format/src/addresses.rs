//! What the addresses of a model's parameters say about each other.

#![deny(clippy::arithmetic_side_effects)]

use alloc::vec::Vec;
use core::cmp::Ordering;

use tensor_core::At;

use crate::entry::Entry;
use crate::index::Index;
use crate::tensors::Role;
use crate::{Error, Result, Rule};

/// Checks that no address is a duplicate or the start of another one.
pub(crate) fn check_addresses(index: &Index) -> Result<()> {
    if !index.tensors.has_dotted() {
        // What is in order, or has no value at the start of its address, need not be sorted.
        if are_apart_in_order(index) || are_apart_by_name(index) {
            return Ok(());
        }
    }
    check_sorted(index)
}

/// The values, without their statistics.
fn values(index: &Index) -> impl Iterator<Item = Entry<'_>> + Clone {
    let all = (0..index.tensors.len()).map(move |ordinal| Entry { index, ordinal });
    all.filter(|entry| matches!(entry.record().role, Role::Value(_)))
}

/// Whether all addresses come in order, part by part, and none starts with the one before it: then none
/// starts with any other.
fn are_apart_in_order(index: &Index) -> bool {
    let mut before = None;
    values(index).all(|entry| {
        let name = entry.name();
        let before = before.replace(name);
        before.is_none_or(|before| is_before(before, name))
    })
}

/// Whether an address comes before another, part by part, and is not its start.
fn is_before(first: &str, second: &str) -> bool {
    let at = common(first, second);
    let byte = |text: &str| text.as_bytes().get(at).copied();
    // The end of a part comes before anything that it may go on with.
    let rank = |byte: u8| {
        if byte == b'.' {
            0
        } else {
            u16::from(byte).saturating_add(1)
        }
    };
    match (byte(first), byte(second)) {
        (Some(first), Some(second)) => rank(first) < rank(second),
        (None, Some(second)) => second != b'.',
        (_, None) => false,
    }
}

/// How many bytes two texts have in common at their start.
fn common(first: &str, second: &str) -> usize {
    let pairs = first.bytes().zip(second.bytes());
    let len = first.len().min(second.len());
    pairs.take(len).position(|(a, b)| a != b).unwrap_or(len)
}

/// Whether all names differ and no value has the start of another's address for a name.
fn are_apart_by_name(index: &Index) -> bool {
    /// Addresses of more parts take too many look-ups.
    const PARTS: usize = 16;
    if !index.same_named.is_empty() {
        return false;
    }
    let mut before = "";
    values(index).all(|entry| {
        let name = entry.name();
        // What the one before it starts with as well was looked up for that.
        let known = common(before, name);
        before = name;
        let mut dots = name.match_indices('.').map(|(at, _)| at);
        let mut looked_up = 0usize;
        dots.all(|at| {
            looked_up = looked_up.saturating_add(1);
            looked_up <= PARTS && (at < known || !is_value(index, name.get(..at)))
        })
    })
}

/// Whether a value has this name.
fn is_value(index: &Index, name: Option<&str>) -> bool {
    let found = name.and_then(|name| index.tensors.names.find(name));
    found.is_some_and(|at| matches!(index.tensors.record(at).role, Role::Value(_)))
}

/// Checks any addresses. In order, part by part, an address is followed at once by all that start
/// with it.
fn check_sorted(index: &Index) -> Result<()> {
    let mut sorted: Vec<Entry<'_>> = Vec::new();
    sorted.reserve_exact(values(index).count());
    sorted.extend(values(index));
    let compare = |a: &Entry<'_>, b: &Entry<'_>| a.path().cmp(b.path());
    if !sorted.is_sorted_by(|a, b| compare(a, b) != Ordering::Greater) {
        sorted.sort_by(compare);
    }
    for (shorter, longer) in sorted.iter().zip(sorted.iter().skip(1)) {
        let mut rest = longer.path();
        if !shorter.path().all(|part| rest.next() == Some(part)) {
            continue;
        }
        let first = shorter.ordinal.min(longer.ordinal);
        let second = shorter.ordinal.max(longer.ordinal);
        let rule = match rest.next() {
            None => Rule::DuplicatePath {
                first: first as u64,
            },
            Some(_) => Rule::PathConflict {
                parameter: shorter.ordinal as u64,
            },
        };
        let offset = index.tensors.record(second).offset;
        let at = At::new(offset, "param_key").entry(second as u64);
        let name = index.tensors.names.get(second);
        return Err(Error::invalid(rule, at).of_tensor(name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;
    use crate::msgpack::{put_array_len, put_bin_len, put_str, put_u32};
    use crate::{Archive, DataType};

    /// A model of one f32 at each address, with a statistic at every other one.
    fn model(addresses: &[Vec<&str>]) -> Vec<u8> {
        let mut file = Vec::new();
        for word in [
            0,
            1,
            DataType::Model.code(),
            u32::try_from(addresses.len()).unwrap(),
        ] {
            put_u32(&mut file, word);
        }
        let tensor = |file: &mut Vec<u8>| {
            put_array_len(file, 0);
            put_u32(file, 1);
            put_bin_len(file, 4);
            file.extend_from_slice(&[0; 4]);
        };
        for (at, address) in addresses.iter().enumerate() {
            put_array_len(&mut file, u32::try_from(address.len()).unwrap());
            address.iter().for_each(|part| put_str(&mut file, part));
            tensor(&mut file);
            let stats = u32::from(at % 2 == 0);
            put_u32(&mut file, stats);
            if stats == 1 {
                put_str(&mut file, "b");
                tensor(&mut file);
            }
        }
        file
    }

    #[test]
    fn addresses_are_apart_or_not_whatever_their_order() {
        // Bytes before and after a dot, parts with a colon as a statistic has one, and empty ones.
        let known = ["a", "b", "a-", "a!", "", "a:b", "aa", "\u{0}"];
        let mut state = 1u64;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % below
        };
        let (mut apart, mut not) = (0, 0);
        for round in 0..20_000 {
            let dotted = round % 4 == 0;
            let mut addresses: Vec<Vec<&str>> = (0..1 + random(6))
                .map(|_| {
                    let parts = (0..1 + random(3)).map(|_| match dotted && random(4) == 0 {
                        true => "a.b",
                        false => known[random(known.len())],
                    });
                    parts.collect()
                })
                .collect();
            if round % 2 == 0 {
                addresses.sort();
            }
            let starts = |a: &Vec<&str>, b: &Vec<&str>| b.starts_with(a);
            let at_fault = (0..addresses.len()).any(|a| {
                (0..addresses.len()).any(|b| a != b && starts(&addresses[a], &addresses[b]))
            });
            let archive = Archive::from_bytes(model(&addresses));
            assert_eq!(archive.is_err(), at_fault, "{addresses:?}: {archive:?}");
            let Ok(archive) = archive else {
                not += 1;
                continue;
            };
            apart += 1;
            let entries = archive.entries().filter(|entry| entry.stat().is_none());
            for (entry, address) in entries.zip(&addresses) {
                assert!(entry.path().eq(address.iter().copied()), "{addresses:?}");
                assert_eq!(entry.name(), String::from(address.join(".").as_str()));
            }
        }
        assert!(apart > 1000 && not > 1000, "{apart} and {not}");
    }
}
