//! Two releases of Burn's crate behind one interface. Their APIs are the same; their types are
//! not, hence a macro.

use burnpack_format as ours;

macro_rules! peer {
    ($module:ident, $version:literal, $pack:ident, $std:ident) => {
        pub mod $module {
            use std::path::Path;

            use $pack::{Bytes, DType, Reader, Scalar, Tensor, Writer};
            use $std::quant::scheme::{QuantMode, QuantScheme, QuantStore, QuantValue, ScaleDtype};
            use $std::tensor::BoolStore;

            use super::ours;
            use crate::Peer;
            use crate::set::{self, Set};

            pub const PEER: Peer = Peer {
                name: $version,
                write: |set| {
                    let bytes = writer(set).into_bytes().expect("their writer");
                    bytes.to_vec()
                },
                write_file: |set, path| {
                    writer(set).write_to_file(path).expect("their writer");
                },
                read: |bytes| {
                    let reader = Reader::from_bytes(Bytes::from_bytes_vec(bytes));
                    content(reader.map_err(|error| error.to_string())?)
                },
                read_file,
            };

            fn read_file(path: &Path) -> Result<Set, String> {
                content(Reader::from_file(path).map_err(|error| error.to_string())?)
            }

            fn writer(set: &Set) -> Writer {
                let tensors = set.tensors.iter().map(|tensor| {
                    let dims: Vec<usize> = tensor
                        .dims
                        .iter()
                        .map(|&dim| usize::try_from(dim).expect("64 bits"))
                        .collect();
                    let data = Bytes::from_bytes_vec(tensor.data.clone());
                    Tensor::new(
                        tensor.name.clone(),
                        dtype(&tensor.code),
                        dims,
                        tensor.param_id,
                        data,
                    )
                });
                let mut writer = Writer::new(tensors.collect());
                for (key, value) in &set.metadata {
                    writer = writer.with_metadata(key, value);
                }
                for (name, scalar) in &set.scalars {
                    let scalar = match *scalar {
                        ours::Scalar::Int(value) => Scalar::Int(value),
                        ours::Scalar::UInt(value) => Scalar::UInt(value),
                        ours::Scalar::Float(value) => Scalar::Float(value),
                        ours::Scalar::Bool(value) => Scalar::Bool(value),
                        ref other => panic!("{other:?}"),
                    };
                    writer = writer.with_scalar(name, scalar);
                }
                writer
            }

            fn content(reader: Reader) -> Result<Set, String> {
                let mut set = Set {
                    metadata: reader.metadata().clone(),
                    ..Set::default()
                };
                for (name, scalar) in reader.scalars() {
                    let scalar = match *scalar {
                        Scalar::Int(value) => ours::Scalar::Int(value),
                        Scalar::UInt(value) => ours::Scalar::UInt(value),
                        Scalar::Float(value) => ours::Scalar::Float(value),
                        Scalar::Bool(value) => ours::Scalar::Bool(value),
                    };
                    set.scalars.insert(name.clone(), scalar);
                }
                for tensor in reader.into_tensors().map_err(|error| error.to_string())? {
                    let (name, dtype, shape, param_id, data) =
                        tensor.into_parts().map_err(|error| error.to_string())?;
                    set.tensors.push(set::Tensor {
                        name,
                        code: code(dtype),
                        dims: shape.to_vec().into_iter().map(|dim| dim as u64).collect(),
                        data: data.to_vec(),
                        param_id,
                    });
                }
                Ok(set)
            }

            fn dtype(code: &ours::DTypeCode) -> DType {
                use ours::DTypeCode as Ours;
                match code {
                    Ours::F64 => DType::F64,
                    Ours::F32 => DType::F32,
                    Ours::Flex32 => DType::Flex32,
                    Ours::F16 => DType::F16,
                    Ours::BF16 => DType::BF16,
                    Ours::I64 => DType::I64,
                    Ours::I32 => DType::I32,
                    Ours::I16 => DType::I16,
                    Ours::I8 => DType::I8,
                    Ours::U64 => DType::U64,
                    Ours::U32 => DType::U32,
                    Ours::U16 => DType::U16,
                    Ours::U8 => DType::U8,
                    Ours::Bool(ours::BoolStore::U8) => DType::Bool(BoolStore::U8),
                    Ours::Bool(ours::BoolStore::U32) => DType::Bool(BoolStore::U32),
                    Ours::Bool(_) => DType::Bool(BoolStore::Native),
                    Ours::QFloat(scheme) => DType::QFloat(scheme_of(scheme)),
                    other => panic!("{other}"),
                }
            }

            fn code(dtype: DType) -> ours::DTypeCode {
                use ours::DTypeCode as Ours;
                match dtype {
                    DType::F64 => Ours::F64,
                    DType::F32 => Ours::F32,
                    DType::Flex32 => Ours::Flex32,
                    DType::F16 => Ours::F16,
                    DType::BF16 => Ours::BF16,
                    DType::I64 => Ours::I64,
                    DType::I32 => Ours::I32,
                    DType::I16 => Ours::I16,
                    DType::I8 => Ours::I8,
                    DType::U64 => Ours::U64,
                    DType::U32 => Ours::U32,
                    DType::U16 => Ours::U16,
                    DType::U8 => Ours::U8,
                    DType::Bool(BoolStore::Native) => Ours::Bool(ours::BoolStore::Native),
                    DType::Bool(BoolStore::U8) => Ours::Bool(ours::BoolStore::U8),
                    DType::Bool(BoolStore::U32) => Ours::Bool(ours::BoolStore::U32),
                    DType::QFloat(scheme) => {
                        let store = match scheme.store {
                            QuantStore::Native => ours::QuantStore::Native,
                            QuantStore::PackedNative(dim) => {
                                ours::QuantStore::PackedNative(dim as u64)
                            }
                            QuantStore::PackedU32(dim) => ours::QuantStore::PackedU32(dim as u64),
                        };
                        // Names are equal on both sides; that of a variant is how it prints.
                        let value = format!("{:?}", scheme.value);
                        let value = ours::QuantValue::from_name(&value).expect("known");
                        let mode = format!("{:?}", scheme.mode);
                        let mode = ours::QuantMode::from_name(&mode).expect("known");
                        let param = |dtype: ScaleDtype| {
                            let name = format!("{dtype:?}");
                            ours::QuantParam::from_name(&name).expect("known")
                        };
                        let mut scheme_of_ours = ours::QuantScheme::new(value, store, mode);
                        scheme_of_ours.tensor = scheme.tensor_scale().map(param);
                        scheme_of_ours.block = scheme.block_scale().map(|block| {
                            let size = ours::BlockSize::new(block.size.as_slice());
                            ours::QuantBlock {
                                size: size.expect("at most five"),
                                dtype: param(block.dtype),
                            }
                        });
                        Ours::QFloat(Box::new(scheme_of_ours))
                    }
                }
            }

            fn scheme_of(scheme: &ours::QuantScheme) -> QuantScheme {
                let value = match scheme.value {
                    ours::QuantValue::Q8F => QuantValue::Q8F,
                    ours::QuantValue::Q8S => QuantValue::Q8S,
                    ours::QuantValue::E5M2 => QuantValue::E5M2,
                    ours::QuantValue::E4M3 => QuantValue::E4M3,
                    ours::QuantValue::Q4F => QuantValue::Q4F,
                    ours::QuantValue::Q4S => QuantValue::Q4S,
                    ours::QuantValue::E2M1 => QuantValue::E2M1,
                    ours::QuantValue::Q2F => QuantValue::Q2F,
                    ours::QuantValue::Q2S => QuantValue::Q2S,
                    other => panic!("{other:?}"),
                };
                let size = |dim: u64| usize::try_from(dim).expect("64 bits");
                let store = match scheme.store {
                    ours::QuantStore::Native => QuantStore::Native,
                    ours::QuantStore::PackedNative(dim) => QuantStore::PackedNative(size(dim)),
                    ours::QuantStore::PackedU32(dim) => QuantStore::PackedU32(size(dim)),
                    other => panic!("{other:?}"),
                };
                let mode = match scheme.mode {
                    ours::QuantMode::Symmetric => QuantMode::Symmetric,
                    ours::QuantMode::Lookup => QuantMode::Lookup,
                    other => panic!("{other:?}"),
                };
                let param = |param: ours::QuantParam| match param {
                    ours::QuantParam::F32 => ScaleDtype::F32,
                    ours::QuantParam::F16 => ScaleDtype::F16,
                    ours::QuantParam::BF16 => ScaleDtype::BF16,
                    ours::QuantParam::UE8M0 => ScaleDtype::UE8M0,
                    ours::QuantParam::UE4M3 => ScaleDtype::UE4M3,
                    other => panic!("{other:?}"),
                };
                let mut theirs = QuantScheme::default()
                    .with_value(value)
                    .with_store(store)
                    .with_mode(mode);
                if let Some(tensor) = scheme.tensor {
                    theirs = theirs.per_tensor(param(tensor));
                }
                if let Some(block) = &scheme.block {
                    theirs = theirs.per_block(block.size.dims(), param(block.dtype));
                }
                theirs
            }
        }
    };
}

peer!(v0_22, "0.22.1", burn_pack_0_22, burn_std_0_22);
peer!(v0_23, "0.23.0-pre.1", burn_pack_0_23, burn_std_0_23);
