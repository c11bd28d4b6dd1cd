use test_data::{alloc::CountingAlloc, gate::Gate};
use ztensor_format::{Archive, Bytes, Kind, ReadOptions, VerifyOptions};

use crate::judge_up_to;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc::new();

/// A file may rightly ask for more memory than it has bytes, if a caller reads it whole.
const MOST: u64 = 8 << 20;

/// All files, damaged in every way; `judge` panics on any error that is not the file's fault.
const GATE: Gate = Gate {
    format: "ztensor",
    folders: &["ztensor", "ztensor-1-2"],
    header: |len| [0..64, len.saturating_sub(96).max(64)..len],
    window: 128 << 20,
    slow: &[
        "zstd_ratio",
        "zstd_claim",
        "many_items",
        "many_1000.zt",
        "many.zt",
        "zstd_high_ratio.zt",
        "v11_unsized_bomb",
        "v12_items",
        "v12_composed",
        "v2_zstd_frames.zt",
        "v12_zstd_long",
    ],
};

#[test]
fn files_cut_at_any_length_end_in_errors() {
    // Without the allocator above, the gate would see no memory at all.
    assert!(test_data::alloc::peak_of(|| vec![0u8; 4096]).1 >= 4096);
    GATE.truncations(|file| drop(judge_up_to(MOST, file)));
}

#[test]
fn any_bit_of_a_header_may_be_wrong() {
    GATE.header_bits(|file| drop(judge_up_to(MOST, file)));
}

#[test]
fn spliced_files_end_in_errors() {
    GATE.splices(|file| drop(judge_up_to(MOST, file)));
}

/// The same for generation 2, whose files are mostly padding. The hash is made right again, so
/// that damage to the manifest is seen by what is behind it.
#[cfg(feature = "generations")]
#[test]
fn damaged_files_of_generation_2_end_in_errors() {
    use test_data::{Expect, mutate};

    let judge = |file: Vec<u8>| drop(judge_up_to(MOST, file));
    const MAGIC: &[u8] = b"\x89ZT2\r\n\x1a\n";
    let rehashed = |mut file: Vec<u8>| {
        let footer = file.len() - 40;
        let field = |file: &[u8], at: usize| {
            u64::from_le_bytes(file[footer + at..footer + at + 8].try_into().unwrap()) as usize
        };
        let (offset, len) = (field(&file, 0), field(&file, 8));
        let manifest = offset
            .checked_add(len)
            .and_then(|end| file.get(offset..end));
        if let Some(hash) = manifest.map(test_data::xxh3) {
            file[footer + 16..footer + 24].copy_from_slice(&hash.to_le_bytes());
        }
        file
    };
    for case in test_data::cases("ztensor").unwrap() {
        if case.expect != Expect::Valid || !case.bytes.starts_with(MAGIC) {
            continue;
        }
        let len = case.bytes.len();
        let tail = len.saturating_sub(400).max(4096).min(len);
        for cut in (tail..len).chain(0..64) {
            judge(case.bytes[..cut].to_vec());
        }
        for flipped in mutate::bit_flips(&case.bytes, tail..len) {
            judge(rehashed(flipped));
        }
        // Only what is not padding.
        for mutated in mutate::mutations(&case.bytes[tail..], 0x0032_5A54, 500) {
            if mutated.len() >= 40 {
                judge(rehashed([&case.bytes[..tail], &mutated].concat()));
            }
        }
    }
}

/// What claims much and holds little ends as an error that takes little memory.
#[test]
fn claims_take_no_memory() {
    let claims = [
        "count_2_32",
        "count_max",
        "bytes_max",
        "text_2_32",
        "array_max",
        "map_max",
        "shape_max",
        "name_max",
        "size_2_62",
        "zstd_64_tib",
        "zstd_claim",
        "zstd_bomb",
        "zstd_lies_huge",
        "zstd_window",
        "zstd_segment",
    ];
    let cases = test_data::cases("ztensor").unwrap();
    for name in claims {
        let case = cases.iter().find(|case| case.name == name).unwrap();
        let ((), peak) = test_data::alloc::peak_of(|| {
            let archive = match Archive::from_bytes(case.bytes.clone()) {
                Ok(archive) => archive,
                Err(error) => return assert_eq!(error.kind(), Kind::Invalid, "{name}"),
            };
            // One thread, whose memory is counted.
            let mut options = VerifyOptions::default();
            options.threads = 1;
            let report = archive.verify(&options).unwrap();
            assert!(report.has_failed(), "{name}");
            assert!(
                archive.read(archive.entries().get(0).unwrap()).is_err(),
                "{name}"
            );
            let data = archive.data(archive.entries().get(0).unwrap()).unwrap();
            assert!(data.read(0..data.size()).is_err(), "{name}");
        });
        // A bomb's 16 bytes, a claim's windows; 64 TiB, 2^60 bytes or 120 MiB would be more.
        assert!(peak < 16 << 20, "{name}: {peak}");
    }
}

/// Tensors without data take more memory than they have bytes where each has a shape of its own, so there is
/// a limit to that.
#[test]
fn an_index_takes_no_more_memory_than_it_may() {
    let file = |count: u32| {
        let mut index = vec![0x9A];
        index.extend(count.to_be_bytes());
        for name in 0..count {
            let name = name.to_string();
            index.extend(b"\xA6\x64name");
            index.push(0x60 + name.len() as u8);
            index.extend(name.as_bytes());
            index.extend(b"\x66offset\x18\x40\x64size\x00\x65dtype\x65uint8\x65shape\x82\x1A");
            index.extend(name.parse::<u32>().unwrap().to_be_bytes());
            index.extend(b"\x00\x68encoding\x63raw");
        }
        let mut file = b"ZTEN0001".to_vec();
        file.resize(64, 0);
        let len = index.len() as u64;
        file.extend(index);
        file.extend(len.to_le_bytes());
        Bytes::from(file)
    };
    let few = file(1000);
    let mut options = ReadOptions::default();
    options.limits.max_index_overhead_bytes = 0;
    let error = Archive::from_source(few.clone(), &options).unwrap_err();
    assert_eq!(error.rule_id(), Some("max_index_overhead_bytes"));
    options.limits.max_index_overhead_bytes = 100_000;
    let archive = Archive::from_source(few, &options).unwrap();
    let last = archive.entries().get(999).unwrap();
    assert_eq!(
        (last.shape().dims(), last.dtype_name()),
        (&[999, 0][..], "uint8")
    );
    for (count, opens) in [(900_000, true), (1_700_000, false)] {
        let file = file(count);
        let most = file.len() + (64 << 20);
        let remote = crate::Remote(file);
        let open = || Archive::from_source(remote, &ReadOptions::default());
        let (archive, peak) = test_data::alloc::peak_of(open);
        assert!(peak <= most, "{count}: {peak} bytes of {most}");
        match archive {
            Ok(_) => assert!(opens, "{count}"),
            Err(error) => assert!(!opens && error.kind() == Kind::Limit, "{count}: {error}"),
        }
    }
}

/// What an open file of ordinary tensors takes: fixed records and the names, nothing for each.
#[test]
fn a_tensor_takes_little_beside_its_name() {
    const COUNT: usize = 10_000;
    let mut builder = ztensor_format::Builder::new();
    let mut names = 0;
    for layer in 0..COUNT {
        let name = format!("model.layers.{layer}.mlp.down_proj.weight");
        names += name.len();
        let data = ztensor_format::Tensor::from_slice(&[1.0f32; 16], &[4, 4]).unwrap();
        builder.tensor(name, data).unwrap();
    }
    let file = Bytes::from(builder.to_vec().unwrap());
    for remote in [false, true] {
        let before = test_data::alloc::allocated();
        let archive = match remote {
            true => Archive::from_source(crate::Remote(file.clone()), &ReadOptions::default()),
            false => Archive::from_bytes(file.clone()),
        };
        let held = (test_data::alloc::allocated() - before) as usize;
        let each = held.saturating_sub(names) as f64 / COUNT as f64;
        assert!((1.0..=64.0).contains(&each), "{each} bytes a tensor");
        assert_eq!(archive.unwrap().entries().len(), COUNT);
    }
}

/// Components may share their data, and objects have none at all: they count as well.
#[cfg(feature = "generations")]
#[test]
fn components_take_no_more_memory_than_they_may() {
    fn head(out: &mut Vec<u8>, major: u8, value: u32) {
        out.push(major << 5 | 26);
        out.extend(value.to_be_bytes());
    }
    fn text(out: &mut Vec<u8>, text: &str) {
        head(out, 3, text.len().try_into().unwrap());
        out.extend(text.as_bytes());
    }
    let object = |out: &mut Vec<u8>, count: u32| {
        head(out, 5, 3);
        text(out, "shape");
        head(out, 4, 0);
        text(out, "format");
        text(out, "x");
        text(out, "components");
        head(out, 5, count);
        for name in 0..count {
            text(out, &name.to_string());
            head(out, 5, 3);
            text(out, "dtype");
            text(out, "u8");
            text(out, "offset");
            head(out, 0, 64);
            text(out, "length");
            head(out, 0, 0);
        }
    };
    let file = |objects: u32, components: u32| {
        let mut manifest = Vec::new();
        head(&mut manifest, 5, 2);
        text(&mut manifest, "version");
        text(&mut manifest, "1.2.0");
        text(&mut manifest, "objects");
        head(&mut manifest, 5, objects);
        for name in 0..objects {
            text(&mut manifest, &name.to_string());
            object(&mut manifest, components);
        }
        let mut file = b"ZTEN1000".to_vec();
        file.resize(64, 0);
        file.extend(&manifest);
        file.extend((manifest.len() as u64).to_le_bytes());
        file.extend(b"ZTEN1000");
        Bytes::from(file)
    };
    for (objects, components, opens) in [
        (1, 100_000, true),
        (1, 400_000, false),
        (200_000, 1, true),
        (700_000, 1, false),
        (400_000, 0, true),
        (2_000_000, 0, false),
    ] {
        let file = file(objects, components);
        let most = file.len() + (64 << 20);
        let remote = crate::Remote(file);
        let open = || Archive::from_source(remote, &ReadOptions::default());
        let (archive, peak) = test_data::alloc::peak_of(open);
        let what = format!("{objects} of {components}");
        assert!(peak <= most, "{what}: {peak} bytes of {most}");
        match archive {
            Ok(_) => assert!(opens, "{what}"),
            Err(error) => assert!(!opens && error.kind() == Kind::Limit, "{what}: {error}"),
        }
    }
}
