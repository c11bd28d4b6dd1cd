//! Strided views against a loop over indices.

use tensor_core::{Bytes, DType, ShapeError, StrideError, Tensor};

/// splitmix64: the same views on every run.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn below(state: &mut u64, bound: u64) -> u64 {
    random(state) % bound
}

/// The bytes of a view, one index at a time; `None` where an index has no element.
fn naive(dims: &[u64], strides: &[i64], offset: u64, data: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for flat in 0..dims.iter().product::<u64>() {
        let (mut rest, mut at) = (flat, offset as i64);
        for (&dim, &stride) in dims.iter().zip(strides).rev() {
            at += (rest % dim) as i64 * stride;
            rest /= dim;
        }
        let at = usize::try_from(at).ok()? * size;
        out.extend_from_slice(data.get(at..at + size)?);
    }
    Some(out)
}

#[test]
fn any_view_is_what_a_loop_over_its_indices_finds() {
    let mut state = 3;
    let data: Vec<u8> = (0..960u32).map(|i| (i % 251) as u8).collect();
    let (mut inside, mut outside) = (0, 0);
    for _ in 0..20_000 {
        let dtypes = [DType::U8, DType::BF16, DType::I32, DType::F64, DType::C128];
        let dtype = dtypes[below(&mut state, 5) as usize];
        let size = dtype.size().unwrap() as usize;
        let rank = below(&mut state, 5) as usize;
        let dims: Vec<u64> = (0..rank).map(|_| below(&mut state, 6)).collect();
        let strides: Vec<i64> = (0..rank)
            .map(|_| below(&mut state, 15) as i64 - 7)
            .collect();
        let offset = below(&mut state, 64);
        let data = &data[..below(&mut state, 961) as usize];
        let view =
            Tensor::from_strided(dtype, &dims, &strides, offset, Bytes::copy_from_slice(data));
        let label = format!("{dtype} {dims:?} {strides:?} {offset} of {}", data.len());
        match naive(&dims, &strides, offset, data, size) {
            Some(want) => {
                let view = view.unwrap_or_else(|error| panic!("{label}: {error}"));
                assert_eq!(view.data(), &want, "{label}");
                assert_eq!(view.shape().dims(), dims, "{label}");
                inside += 1;
            }
            None => {
                let error = view.expect_err(&label);
                let bounds = matches!(error, StrideError::OutOfBounds { .. });
                assert!(bounds, "{label}: {error}");
                outside += 1;
            }
        }
    }
    assert!(inside > 2000 && outside > 2000, "{inside} {outside}");
}

#[test]
fn what_lies_in_row_major_order_is_not_copied() {
    let stored = Tensor::from_slice(&(0..24).collect::<Vec<i32>>(), &[2, 3, 4]).unwrap();
    // The middle row of each, dims of 1 having any stride.
    for (dims, strides, offset) in [
        (&[2, 3, 4][..], &[12, 4, 1][..], 0),
        (&[1, 3, 1, 4], &[-9, 4, i64::MIN, 1], 12),
        (&[], &[], 23),
    ] {
        let data = stored.data().clone();
        let view = Tensor::from_strided(DType::I32, dims, strides, offset, data).unwrap();
        let from = usize::try_from(offset).unwrap() * 4;
        assert_eq!(view.data().as_ptr(), stored.data()[from..].as_ptr());
    }
}

#[test]
fn views_that_cannot_be_are_errors_and_nothing_wraps() {
    let view = |dims: &[u64], strides: &[i64], offset| {
        Tensor::from_strided(DType::U8, dims, strides, offset, vec![7; 10])
    };
    assert_eq!(
        view(&[2], &[1, 1], 0),
        Err(StrideError::Count {
            dims: 1,
            strides: 2
        })
    );
    assert_eq!(
        view(&[2, 5], &[6, 1], 0),
        Err(StrideError::OutOfBounds {
            first: 0,
            last: 10,
            available: 10
        })
    );
    assert_eq!(
        view(&[3], &[-1], 1).unwrap_err().to_string(),
        "the view spans elements -1 to 1 of data that holds 10"
    );
    // Sums and products that would wrap 64 bits, to 0 or to something inside.
    for (dims, strides, offset) in [
        (&[2, 2][..], &[i64::MAX, i64::MAX][..], 2),
        (&[3], &[i64::MIN], 0),
        (&[1 << 32, 1 << 31], &[1 << 32, i64::MAX], 0),
        (&[1], &[0], u64::MAX),
        (&[u64::MAX], &[i64::MIN], u64::MAX),
    ] {
        let error = view(dims, strides, offset).unwrap_err();
        let bounds = matches!(error, StrideError::OutOfBounds { .. });
        assert!(bounds, "{dims:?}: {error}");
    }
    // One element repeated more often than there is memory for.
    let endless = Tensor::from_strided(DType::F64, &[u64::MAX], &[0], 0, vec![0; 8]);
    assert_eq!(
        endless.unwrap_err(),
        StrideError::Shape(ShapeError::ByteOverflow)
    );
    let endless = view(&[1 << 62], &[0], 0);
    assert_eq!(endless.unwrap_err(), StrideError::OutOfMemory(1 << 62));
    assert_eq!(
        view(&[1 << 32, 1 << 32], &[0, 0], 0).unwrap_err(),
        StrideError::Shape(ShapeError::Overflow)
    );
    let opaque = Tensor::from_strided(DType::Opaque, &[1], &[1], 0, vec![0; 8]);
    assert_eq!(opaque.unwrap_err(), StrideError::Opaque(DType::Opaque));
    // Where there is no element, none is out of bounds.
    let empty = view(&[3, 0, u64::MAX], &[i64::MAX; 3], u64::MAX).unwrap();
    assert!(empty.data().is_empty());
}
