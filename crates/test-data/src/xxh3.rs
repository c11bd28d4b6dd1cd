//! XXH3 of 64 bits without seed, by the published description of the algorithm.

const P32_1: u64 = 0x9E37_79B1;
const P32_2: u64 = 0x85EB_CA77;
const P32_3: u64 = 0xC2B2_AE3D;
const P64_1: u64 = 0x9E37_79B1_85EB_CA87;
const P64_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const P64_3: u64 = 0x1656_67B1_9E37_79F9;
const P64_4: u64 = 0x85EB_CA77_C2B2_AE63;
const P64_5: u64 = 0x27D4_EB2F_1656_67C5;
const PMX_1: u64 = 0x1656_6791_9E37_79F9;
const PMX_2: u64 = 0x9FB2_1C65_1E98_DF25;

const SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

/// XXH3-64 with seed 0.
#[must_use]
pub fn xxh3(data: &[u8]) -> u64 {
    let len = data.len();
    let count = len as u64;
    match len {
        0 => finish_old(word(&SECRET, 56) ^ word(&SECRET, 64)),
        1..=3 => {
            let byte = |at: usize| u64::from(data[at]);
            let combined = byte(0) << 16 | byte(len / 2) << 24 | byte(len - 1) | count << 8;
            finish_old(combined ^ u64::from(half(&SECRET, 0) ^ half(&SECRET, 4)))
        }
        4..=8 => {
            let value = u64::from(half(data, len - 4)) + (u64::from(half(data, 0)) << 32);
            let mut hash = value ^ word(&SECRET, 8) ^ word(&SECRET, 16);
            hash ^= hash.rotate_left(49) ^ hash.rotate_left(24);
            hash = hash.wrapping_mul(PMX_2);
            hash ^= (hash >> 35).wrapping_add(count);
            hash = hash.wrapping_mul(PMX_2);
            hash ^ hash >> 28
        }
        9..=16 => {
            let low = word(data, 0) ^ word(&SECRET, 24) ^ word(&SECRET, 32);
            let high = word(data, len - 8) ^ word(&SECRET, 40) ^ word(&SECRET, 48);
            let sum = count.wrapping_add(low.swap_bytes()).wrapping_add(high);
            finish(sum.wrapping_add(fold(low, high)))
        }
        17..=128 => {
            let mut sum = count.wrapping_mul(P64_1);
            for round in (0..(len - 1) / 32 + 1).rev() {
                sum = sum.wrapping_add(mix(data, 16 * round, 32 * round));
                sum = sum.wrapping_add(mix(data, len - 16 * (round + 1), 32 * round + 16));
            }
            finish(sum)
        }
        129..=240 => {
            let mut sum = count.wrapping_mul(P64_1);
            for round in 0..8 {
                sum = sum.wrapping_add(mix(data, 16 * round, 16 * round));
            }
            sum = finish(sum);
            for round in 8..len / 16 {
                sum = sum.wrapping_add(mix(data, 16 * round, 16 * (round - 8) + 3));
            }
            finish(sum.wrapping_add(mix(data, len - 16, 136 - 17)))
        }
        _ => long(data),
    }
}

fn long(data: &[u8]) -> u64 {
    let mut lanes = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1];
    let len = data.len();
    let blocks = (len - 1) / 1024;
    for block in 0..blocks {
        for stripe in 0..16 {
            add(&mut lanes, data, 1024 * block + 64 * stripe, 8 * stripe);
        }
        for (at, lane) in lanes.iter_mut().enumerate() {
            *lane = (*lane ^ *lane >> 47 ^ word(&SECRET, 128 + 8 * at)).wrapping_mul(P32_1);
        }
    }
    for stripe in 0..(len - 1 - 1024 * blocks) / 64 {
        add(&mut lanes, data, 1024 * blocks + 64 * stripe, 8 * stripe);
    }
    add(&mut lanes, data, len - 64, 121);
    let mut sum = (len as u64).wrapping_mul(P64_1);
    for pair in 0..4 {
        let low = lanes[2 * pair] ^ word(&SECRET, 11 + 16 * pair);
        let high = lanes[2 * pair + 1] ^ word(&SECRET, 19 + 16 * pair);
        sum = sum.wrapping_add(fold(low, high));
    }
    finish(sum)
}

fn add(lanes: &mut [u64; 8], data: &[u8], at: usize, secret: usize) {
    for lane in 0..8 {
        let value = word(data, at + 8 * lane);
        let key = value ^ word(&SECRET, secret + 8 * lane);
        lanes[lane ^ 1] = lanes[lane ^ 1].wrapping_add(value);
        lanes[lane] = lanes[lane].wrapping_add((key & 0xFFFF_FFFF).wrapping_mul(key >> 32));
    }
}

fn mix(data: &[u8], at: usize, secret: usize) -> u64 {
    let low = word(data, at) ^ word(&SECRET, secret);
    fold(low, word(data, at + 8) ^ word(&SECRET, secret + 8))
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let low = u64::try_from(product & u128::from(u64::MAX)).expect("64 bits");
    let high = u64::try_from(product >> 64).expect("64 bits");
    low ^ high
}

fn finish(mut hash: u64) -> u64 {
    hash ^= hash >> 37;
    hash = hash.wrapping_mul(PMX_1);
    hash ^ hash >> 32
}

fn finish_old(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(P64_2);
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(P64_3);
    hash ^ hash >> 32
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_real_files() {
        // The manifest of an empty file, and of the bytes that a part of a real file has.
        assert_eq!(xxh3(b"\xA1\x67objects\xA0"), 0x8F8B_3A7E_746E_7C7D);
        assert_eq!(xxh3(b""), 0x2D06_8005_38D3_94C2);
    }
}
