use super::{Made, name, single};
use crate::mag_snapshots::manifest_file;
use crate::{LeBuffer, crc32c};

fn count32(count: usize) -> u32 {
    u32::try_from(count).expect("a count of 32 bits")
}

/// Version 1: the counts, then records, with the checksum over both.
fn version_1(tensors: usize, pairs: usize, records: impl FnOnce(&mut LeBuffer)) -> LeBuffer {
    let mut file = LeBuffer::new();
    file.text("MAG!").u32(1).tag("checksum").u32(0);
    file.u32(count32(tensors)).u32(count32(pairs)).u32(0);
    records(&mut file);
    let checksum = crc32c(&file.as_slice()[12..]);
    file.set_u32_at("checksum", checksum);
    file
}

pub(super) fn small(count: usize) -> Made {
    // 24 of the header; 20, a dim, the length of the key and the key for each.
    let data = (24 + count * (20 + 8 + 4 + 5)).next_multiple_of(64);
    let mut file = version_1(count, 0, |file| {
        for at in 0..count {
            file.u32(1 << 8).u64(1).u64((data + 64 * at) as u64).u64(1);
            file.u32(5).text(&name(at));
        }
    });
    file.pad_to(64, 0).fill(64 * count, 0);
    single("mag", file.into_vec()).with_own()
}

pub(super) fn keys(count: usize) -> Made {
    let file = version_1(0, count, |file| {
        for at in 0..count {
            file.u32(1).u64(at as u64).u32(5).text(&name(at));
        }
    });
    single("mag", file.into_vec())
}

/// A snapshot with a pool of names, whose tensors have no elements.
fn pooled(version: u32, align: usize, count: usize) -> Made {
    let mut file = LeBuffer::new();
    file.text("MAG!").u32(version).u64(1_764_547_200);
    file.tag("checksum").u32(0).u32(0).u32(0);
    file.u32(count32(count)).text("SRP!").u32(count32(count));
    for at in 0..=count {
        file.u32(count32(5 * at));
    }
    for at in 0..count {
        file.text(&name(at));
    }
    file.text("MDT!").text("DSC!");
    for at in 0..count {
        file.u8(1)
            .u8(0)
            .u16(0)
            .u32(count32(at))
            .u64(0)
            .u64(0)
            .u64(0);
    }
    let checksum = crc32c(&file.as_slice()[20..]);
    file.set_u32_at("checksum", checksum);
    file.text("BUF!").pad_to(align, 0);
    single("mag", file.into_vec())
}

pub(super) fn pooled_100(count: usize) -> Made {
    pooled(100, 1, count)
}

pub(super) fn pooled_200(count: usize) -> Made {
    pooled(200, 16, count)
}

pub(super) fn manifest(count: usize) -> Made {
    let tensor = |at: usize| {
        let name = name(at);
        format!(r#""{name}":{{"shape":[0],"dtype":"float32","dtype_id":0,"offset":0,"nbytes":0}}"#)
    };
    let map: Vec<String> = (0..count).map(tensor).collect();
    let map = format!("{{{}}}", map.join(","));
    single("mag", manifest_file("{}", &map, &[]))
}

pub(super) fn manifest_list(count: usize) -> Made {
    let list = vec!["1e9"; count].join(",");
    let metadata = format!(r#"{{"list":[{list}]}}"#);
    single("mag", manifest_file(&metadata, "{}", &[]))
}

pub(super) fn manifest_keys(count: usize) -> Made {
    let pairs: Vec<String> = (0..count)
        .map(|at| format!(r#""{}":1"#, name(at)))
        .collect();
    let metadata = format!("{{{}}}", pairs.join(","));
    single("mag", manifest_file(&metadata, "{}", &[]))
}
