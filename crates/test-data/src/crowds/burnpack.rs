use super::{Made, name, single};
use crate::burnpack::{Item, aligned, bools as bool_dtype, descriptor, head, map, text};

/// The top map with tensors, each with the item that is made for it.
fn tensors(count: usize, tensor: impl Fn(usize) -> Item) -> Item {
    let mut inner = head(5, count as u64);
    for at in 0..count {
        inner.extend(text(&name(at)));
        inner.extend(tensor(at));
    }
    map(&[("tensors", inner)])
}

pub(super) fn empty(count: usize) -> Made {
    let metadata = tensors(count, |_| descriptor(text("F32"), &[0], 0, 0));
    single("bpk", aligned(&metadata, &[]))
}

pub(super) fn small(count: usize) -> Made {
    let metadata = tensors(count, |at| {
        let start = 256 * at as u64;
        descriptor(text("F32"), &[4], start, start + 16)
    });
    single("bpk", aligned(&metadata, &vec![&[0u8; 16][..]; count])).with_own()
}

pub(super) fn packed(count: usize) -> Made {
    let metadata = tensors(count, |at| {
        let start = 16 * at as u64;
        descriptor(text("F32"), &[4], start, start + 16)
    });
    let file = crate::burnpack::packed(&metadata, &vec![&[0u8; 16][..]; count]);
    single("bpk", file).with_own()
}

pub(super) fn bools(count: usize) -> Made {
    let metadata = tensors(count, |_| descriptor(text("Bool"), &[0], 0, 0));
    single("bpk", aligned(&metadata, &[]))
}

pub(super) fn keys(count: usize) -> Made {
    let mut pairs = head(5, count as u64);
    for at in 0..count {
        pairs.extend(text(&name(at)));
        pairs.extend(text(""));
    }
    let one = map(&[("w", descriptor(bool_dtype("Native"), &[1], 0, 1))]);
    let metadata = map(&[("tensors", one), ("metadata", pairs)]);
    single("bpk", aligned(&metadata, &[&[1]]))
}
