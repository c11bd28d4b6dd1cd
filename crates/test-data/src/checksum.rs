//! CRCs computed bit by bit: slow, short, and unrelated to the crates the codecs use.

/// CRC-32C (Castagnoli): mag's records and ztensor's components.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    reflected_crc32(0x82F6_3B78, bytes)
}

/// CRC-32 as in zlib and IEEE 802.3.
#[must_use]
pub fn crc32_ieee(bytes: &[u8]) -> u32 {
    reflected_crc32(0xEDB8_8320, bytes)
}

fn reflected_crc32(polynomial: u32, bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            let carry = crc & 1;
            crc >>= 1;
            if carry == 1 {
                crc ^= polynomial;
            }
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32_ieee(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn nothing_sums_to_zero() {
        assert_eq!(crc32c(b""), 0);
        assert_eq!(crc32_ieee(b""), 0);
    }

    #[test]
    fn twelve_zero_bytes() {
        // The checksum field of a mag file that has no records.
        assert_eq!(crc32c(&[0; 12]), 0x2B60_B55D);
    }
}
