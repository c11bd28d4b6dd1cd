use tensor_core::{Bytes, CastError, DType, Order, Shape, ShapeError, Tensor, f16};

#[test]
fn a_slice_needs_dtype_and_alignment_and_a_vector_only_the_dtype() {
    let buffer = Tensor::from_slice(&[0.0f64; 5], &[5]).unwrap();
    for offset in 0..16 {
        let bytes = buffer.data().slice(offset..offset + 24);
        let tensor = Tensor::new(DType::F64, Shape::new(&[3]).unwrap(), bytes).unwrap();
        // 8 bytes, but 4 on some hosts of 32 bits.
        let aligned = offset % align_of::<f64>() == 0;
        let little = cfg!(target_endian = "little");
        assert_eq!(
            tensor.as_slice::<f64>().is_ok(),
            aligned && little,
            "{offset}"
        );
        assert_eq!(tensor.to_vec::<f64>().unwrap(), [0.0; 3]);
        let wrong = CastError::DType {
            expected: DType::I64,
            got: DType::F64,
        };
        assert_eq!(tensor.as_slice::<i64>().unwrap_err(), wrong);
        assert_eq!(tensor.to_vec::<i64>().unwrap_err(), wrong);
    }
    let unaligned = buffer.data().slice(1..9);
    let tensor = Tensor::new(DType::F64, Shape::SCALAR, unaligned).unwrap();
    assert!(match tensor.as_slice::<f64>() {
        Err(CastError::Alignment { align, .. }) => align == align_of::<f64>(),
        Err(CastError::ByteOrder) => cfg!(target_endian = "big"),
        _ => false,
    });
}

#[test]
fn opaque_and_pass_through_tensors_are_only_bytes() {
    let opaque = Tensor::new(DType::Opaque, Shape::new(&[100]).unwrap(), vec![1, 2, 3]).unwrap();
    assert_eq!(opaque.data(), &[1, 2, 3][..]);
    assert!(opaque.as_slice::<u8>().is_err());
    assert_eq!(
        opaque.to_row_major().unwrap_err(),
        CastError::Opaque(DType::Opaque)
    );
    let f8 = Tensor::new(DType::F8E4M3, Shape::new(&[3]).unwrap(), vec![1, 2, 3]).unwrap();
    assert!(f8.to_vec::<u8>().is_err());
}

#[test]
fn lengths_must_fit_and_nothing_wraps() {
    let new = |dims: &[u64], len: usize| {
        Tensor::new(DType::F32, Shape::new(dims)?, Bytes::from(vec![0; len]))
    };
    assert!(new(&[2, 3], 24).is_ok());
    assert_eq!(
        new(&[2, 3], 23).unwrap_err(),
        ShapeError::DataLength {
            expected: 24,
            got: 23
        }
    );
    assert_eq!(
        new(&[1 << 32, 1 << 32], 0).unwrap_err(),
        ShapeError::Overflow
    );
    // A product that wraps to exactly the data's length.
    assert_eq!(
        new(&[(1 << 63) + 2, 2], 16).unwrap_err(),
        ShapeError::Overflow
    );
    assert_eq!(new(&[1 << 62], 0).unwrap_err(), ShapeError::ByteOverflow);
    assert!(new(&[3, 0, u64::MAX], 0).is_ok());
    assert_eq!(Shape::new(&[3, 0, 2]).unwrap().elements(), 0);
}

#[test]
fn every_dtype_has_a_size_and_a_name_of_its_own() {
    let mut names: Vec<&str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), DType::ALL.len());
    for &dtype in DType::ALL {
        assert_eq!(dtype.size().is_none(), dtype == DType::Opaque);
        assert!(dtype.size().unwrap_or(16) as usize % dtype.swap_size() == 0);
    }
}

#[test]
fn column_major_elements_land_where_they_belong() {
    // Element (i, j, k) of dims [2, 3, 4] is 100 i + 10 j + k.
    let (mut column, mut row) = (vec![f16::ZERO; 24], vec![f16::ZERO; 24]);
    for i in 0..2 {
        for j in 0..3 {
            for k in 0..4 {
                let value = f16::from_f32((100 * i + 10 * j + k) as f32);
                column[i + 2 * j + 6 * k] = value;
                row[12 * i + 4 * j + k] = value;
            }
        }
    }
    let tensor = Tensor::from_slice(&column, &[2, 3, 4])
        .unwrap()
        .with_order(Order::ColumnMajor);
    let moved = tensor.to_row_major().unwrap();
    assert_eq!(moved.to_vec::<f16>().unwrap(), row);
    assert_eq!(
        (moved.order(), moved.shape().dims()),
        (Order::RowMajor, &[2, 3, 4][..])
    );
    let view = tensor.reversed_view();
    assert_eq!(view.data().as_ptr(), tensor.data().as_ptr());
    assert_eq!(
        (view.order(), view.shape().dims()),
        (Order::RowMajor, &[4, 3, 2][..])
    );
    // Nothing moves where at most one dim counts.
    let flat = Tensor::from_slice(&column, &[1, 24, 1])
        .unwrap()
        .with_order(Order::ColumnMajor);
    assert_eq!(
        flat.to_row_major().unwrap().data().as_ptr(),
        flat.data().as_ptr()
    );
}

#[test]
fn elements_are_stored_little_endian() {
    let floats = Tensor::from_slice(&[1.0f32, -2.5], &[2]).unwrap();
    let bytes = [0, 0, 0x80, 0x3F, 0, 0, 0x20, 0xC0];
    assert_eq!(floats.data()[..], bytes);
    let shorts = Tensor::from_slice(&[0x0102i16, -2], &[2]).unwrap();
    assert_eq!(shorts.data()[..], [0x02, 0x01, 0xFE, 0xFF]);
    let long = Tensor::from_slice(&[0x0102_0304_0506_0708u64], &[]).unwrap();
    assert_eq!(long.data()[..], [8, 7, 6, 5, 4, 3, 2, 1]);
    // And the way back takes bytes, wherever they come from, as little-endian.
    let read = Tensor::new(DType::F32, Shape::new(&[2]).unwrap(), bytes.to_vec()).unwrap();
    assert_eq!(read.to_vec::<f32>().unwrap(), [1.0, -2.5]);
    let read = Tensor::new(DType::I16, Shape::SCALAR, vec![0x02, 0x01]).unwrap();
    assert_eq!(read.to_vec::<i16>().unwrap(), [0x0102]);
}
