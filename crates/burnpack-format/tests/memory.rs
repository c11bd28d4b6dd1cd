//! How much memory an open archive takes: one test, since other tests' memory would count too.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may stop at the first surprise"
)]

use burnpack_format::{Archive, Bytes};
use test_data::alloc::CountingAlloc;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

const COUNT: u32 = 10_000;

/// What the descriptor of a tensor has beside its offsets, as CBOR.
type Item = fn(u32) -> Vec<u8>;

/// A file whose tensors have eight bytes each, in the order of `place`.
fn file(item: Item, place: impl Fn(u32) -> u32) -> Vec<u8> {
    let mut metadata = b"\xA1\x67tensors\xBA".to_vec();
    metadata.extend(COUNT.to_be_bytes());
    for i in 0..COUNT {
        metadata.push(0x6B);
        metadata.extend(format!("layer.{i:05}").as_bytes());
        let item = item(i);
        metadata.push(0xA1 + item[0]);
        metadata.extend(&item[1..]);
        let start = place(i) * 256;
        metadata.extend(b"\x6Cdata_offsets\x82\x1A");
        metadata.extend(start.to_be_bytes());
        metadata.push(0x1A);
        metadata.extend((start + 8).to_be_bytes());
    }
    let mut file = b"NRUB\x01\0".to_vec();
    file.extend(u32::try_from(metadata.len()).unwrap().to_le_bytes());
    file.extend(metadata);
    file.resize(file.len().next_multiple_of(256), 0);
    let data = usize::try_from(COUNT).unwrap() * 256;
    file.resize(file.len() + data, 0);
    file
}

const PLAIN: Item = |_| b"\x02\x65dtype\x63F32\x65shape\x81\x02".to_vec();
/// Parameter ids for all tensors, and for every other one.
const IDS: Item = |i| {
    let id = u64::from(i) << 32 | 0xFFFF;
    let mut item = b"\x03\x65dtype\x63F32\x65shape\x81\x02\x68param_id\x1B".to_vec();
    item.extend(id.to_be_bytes());
    item
};
const HALF: Item = |i| if i % 2 == 0 { IDS(i) } else { PLAIN(i) };
/// Schemes and dtypes that come in turns, each of which is held once.
const TURNS: Item = |i| {
    match i % 3 {
    0 => b"\x02\x65dtype\xA1\x66QFloat\xA5\x65value\x63Q8S\x65store\x66Native\x64mode\x69Symmetric\x66tensor\xF6\x65block\xF6\x65shape\x81\x02".to_vec(),
    1 => b"\x02\x65dtype\x78\x20a dtype that nobody knows as yet\x65shape\x82\x01\x02".to_vec(),
    _ => b"\x02\x65dtype\xA1\x64Bool\x62U8\x65shape\x83\x02\x02\x02".to_vec(),
}
};

#[test]
fn a_tensor_takes_at_most_64_bytes_and_its_name() {
    let names = "layer.00000".len() * COUNT as usize;
    for (what, item) in [
        ("plain", PLAIN),
        ("ids", IDS),
        ("half", HALF),
        ("turns", TURNS),
    ] {
        for (order, step) in [("in order", 1), ("in another order", 7)] {
            // Every place once: 7 has no divisor in common with the count.
            let bytes = Bytes::from(file(item, |i| i * step % COUNT));
            let before = ALLOC.current();
            ALLOC.reset();
            let archive = Archive::from_bytes(bytes).unwrap();
            let kept = ALLOC.current() - before - names;
            let peak = ALLOC.peak() - before - names;
            println!("{what} {order}: {kept} kept beside names, {peak} at most");
            assert_eq!(archive.entries().len(), COUNT as usize);
            assert!(kept <= 64 * COUNT as usize, "{what} {order}: {kept}");
            // There are two copies of the names while they are brought into another order.
            assert!(peak <= 80 * COUNT as usize, "{what} {order}: {peak}");
        }
    }
}
