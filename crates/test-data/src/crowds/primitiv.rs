use super::{Made, name, single};
use crate::LeBuffer;
use crate::primitiv::{MODEL, OPTIMIZER, PARAMETER, header, text, uint};

fn count32(count: usize) -> u32 {
    u32::try_from(count).expect("a count of 32 bits")
}

/// A tensor without dims.
fn scalar(file: &mut LeBuffer) {
    file.u8(0x90);
    uint(file, 1);
    file.u8(0xC4).u8(4).u32(0);
}

pub(super) fn scalars(count: usize) -> Made {
    let mut file = header(MODEL);
    uint(&mut file, count32(count));
    for at in 0..count {
        file.u8(0x91);
        text(&mut file, name(at).as_bytes());
        scalar(&mut file);
        uint(&mut file, 0);
    }
    single("model", file.into_vec()).with_own()
}

/// The same as [`scalars`] with one dim of 1, which no writer stores.
pub(super) fn ones(count: usize) -> Made {
    let mut file = header(MODEL);
    uint(&mut file, count32(count));
    for at in 0..count {
        file.u8(0x91);
        text(&mut file, name(at).as_bytes());
        file.u8(0x91);
        uint(&mut file, 1);
        uint(&mut file, 1);
        file.u8(0xC4).u8(4).u32(0);
        uint(&mut file, 0);
    }
    single("model", file.into_vec())
}

pub(super) fn stats(count: usize) -> Made {
    let mut file = header(PARAMETER);
    scalar(&mut file);
    uint(&mut file, count32(count));
    for at in 0..count {
        text(&mut file, name(at).as_bytes());
        scalar(&mut file);
    }
    single("param", file.into_vec()).with_own()
}

pub(super) fn configs(count: usize) -> Made {
    let mut file = header(OPTIMIZER);
    match u16::try_from(count) {
        Ok(count @ 0..=15) => file.u8(0x80 | u8::try_from(count).expect("below 16")),
        Ok(count) => file.u8(0xDE).u16_be(count),
        Err(_) => file.u8(0xDF).u32_be(count32(count)),
    };
    for at in 0..count {
        text(&mut file, name(at).as_bytes());
        uint(&mut file, count32(at));
    }
    file.u8(0x80);
    single("optimizer", file.into_vec())
}
