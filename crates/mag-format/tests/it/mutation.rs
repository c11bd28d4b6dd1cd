use mag_format::{Archive, Builder, Bytes, ReadOptions, Tensor};
use test_data::{alloc::CountingAlloc, gate::Gate};

use crate::judge;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

/// All files, damaged in every way; `judge` panics on any error that is not the file's fault.
const GATE: Gate = Gate {
    format: "mag",
    folders: &["mag", "mag-snapshots"],
    header: |_| [0..1024, 0..0],
    window: 0,
    slow: &[],
};

#[test]
fn files_cut_at_any_length_end_in_errors() {
    // Without the allocator above, the gate would see no memory at all.
    assert!(test_data::alloc::peak_of(|| vec![0u8; 4096]).1 >= 4096);
    GATE.truncations(|file| drop(judge(file)));
}

#[test]
fn any_bit_of_a_header_may_be_wrong() {
    GATE.header_bits(|file| drop(judge(file)));
}

#[test]
fn spliced_files_end_in_errors() {
    GATE.splices(|file| drop(judge(file)));
}

#[test]
fn counts_without_records_take_no_memory() {
    let mut file = b"MAG!\x01\0\0\0\0\0\0\0".to_vec();
    file.extend([0xFF; 8]);
    file.extend([0; 4]);
    let (_, peak) = test_data::alloc::peak_of(|| judge(file));
    assert!(peak < 1 << 20, "{peak}");
}

/// Tiny tensors take less memory than they have bytes in the file.
#[test]
fn an_index_takes_no_more_memory_than_it_may() {
    let file = |count: u32| {
        let mut builder = Builder::new();
        for name in 0..count {
            let tensor = Tensor::from_slice(&[1i32], &[1]).unwrap();
            builder.tensor(format!("{name:x}"), tensor).unwrap();
        }
        Bytes::from(builder.to_vec().unwrap())
    };
    // Those of one shape take less than they have in the file.
    let few = file(1000);
    let mut options = ReadOptions::default();
    options.limits.max_index_overhead_bytes = 0;
    assert!(Archive::from_source(few, &options).is_ok());
    let file = file(300_000);
    let most = file.len() + (64 << 20);
    let (archive, peak) = test_data::alloc::peak_of(|| Archive::from_bytes(file));
    assert_eq!(archive.unwrap().entries().len(), 300_000);
    assert!(peak <= most, "{peak} bytes of {most}");
}

/// An open archive holds 64 bytes for each tensor, beside its name.
#[test]
fn an_index_is_small() {
    let mut builder = Builder::new();
    let mut names = 0;
    for i in 0..10_000 {
        let name = format!("model.layers.{i}.weight");
        names += name.len();
        let tensor = Tensor::from_slice(&[i; 4], &[2, 2]).unwrap();
        builder.tensor(name, tensor).unwrap();
    }
    let file = Bytes::from(builder.to_vec().unwrap());
    let before = test_data::alloc::allocated();
    let archive = Archive::from_bytes(file).unwrap();
    let held = usize::try_from(test_data::alloc::allocated() - before).unwrap();
    assert_eq!(archive.entries().len(), 10_000);
    assert!(
        held > names,
        "{held} bytes: the counting allocator is not installed"
    );
    let each = (held - names) / 10_000;
    assert!(each <= 64, "{each} bytes for each tensor beside its name");
}
