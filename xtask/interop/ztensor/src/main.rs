//! Holds `ztensor-format` against the crate `ztensor` 0.1.0, both ways: each reads what the other
//! writes, and for the same tensors both write the same bytes. Prints figures; exits with 1 on any
//! difference.
//!
//! `cargo run --release --manifest-path xtask/interop/ztensor/Cargo.toml`

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Cursor;
use std::process::ExitCode;
use std::time::Instant;

use serde_cbor::Value as TheirValue;
use ztensor::models::{ChecksumAlgorithm, DType as TheirDType, DataEndianness, Layout};
use ztensor::{ZTensorReader, ZTensorWriter};
use ztensor_format::{
    Algorithm, Archive, Builder, Checksum, DType, Encoding, Endianness, Outcome, Shape, Tensor,
    TensorOptions, Value, VerifyOptions,
};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// A tensor and how it is stored, as both sides are told.
#[derive(Clone)]
struct Case {
    name: String,
    dtype: DType,
    dims: Vec<u64>,
    data: Vec<u8>,
    encoding: Encoding,
    big: bool,
    crc32c: bool,
    custom: Vec<(&'static str, Value, TheirValue)>,
}

const DTYPES: [(DType, TheirDType); 13] = [
    (DType::F64, TheirDType::Float64),
    (DType::F32, TheirDType::Float32),
    (DType::F16, TheirDType::Float16),
    (DType::BF16, TheirDType::BFloat16),
    (DType::I64, TheirDType::Int64),
    (DType::I32, TheirDType::Int32),
    (DType::I16, TheirDType::Int16),
    (DType::I8, TheirDType::Int8),
    (DType::U64, TheirDType::Uint64),
    (DType::U32, TheirDType::Uint32),
    (DType::U16, TheirDType::Uint16),
    (DType::U8, TheirDType::Uint8),
    (DType::Bool, TheirDType::Bool),
];

fn main() -> ExitCode {
    match run() {
        Ok(0) => {
            println!("no difference");
            ExitCode::SUCCESS
        }
        Ok(differences) => {
            println!("{differences} differences");
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("stopped: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<usize> {
    let mut tally = Tally::default();
    for (name, cases) in files() {
        let what = format!("{name} ({} tensors)", cases.len());
        let theirs = write_theirs(&cases).map_err(|error| format!("{what}: {error}"))?;
        let ours = write_ours(&cases)?;
        let zstd = cases.iter().any(|case| case.encoding == Encoding::Zstd);
        let equal = theirs == ours;
        tally.files += 1;
        tally.tensors += cases.len();
        if zstd {
            // The bytes of frames are the library's; they count, but are not demanded.
            tally.zstd_files += 1;
            tally.zstd_equal += usize::from(equal);
        } else {
            tally.raw_equal += usize::from(equal);
            tally.check(equal, &what, "raw bytes differ");
        }
        for (whose, bytes) in [("theirs", &theirs), ("ours", &ours)] {
            let read = read_ours(bytes, &cases);
            tally.check(read.is_ok(), &what, &format!("we read {whose}: {read:?}"));
            let read = read_theirs(bytes, &cases);
            tally.check(read.is_ok(), &what, &format!("they read {whose}: {read:?}"));
        }
    }
    damage(&mut tally)?;
    sha256(&mut tally)?;
    println!(
        "{} files with {} tensors, each read by both, written by both",
        tally.files, tally.tensors
    );
    println!(
        "{} of {} raw files and {} of {} files with zstd are equal byte for byte",
        tally.raw_equal,
        tally.files - tally.zstd_files,
        tally.zstd_equal,
        tally.zstd_files
    );
    open_times()?;
    Ok(tally.differences)
}

#[derive(Default)]
struct Tally {
    files: usize,
    tensors: usize,
    zstd_files: usize,
    zstd_equal: usize,
    raw_equal: usize,
    differences: usize,
}

impl Tally {
    fn check(&mut self, holds: bool, what: &str, difference: &str) {
        if !holds {
            self.differences += 1;
            println!("{what}: {difference}");
        }
    }
}

/// The tensors of every file, by the file's name.
fn files() -> Vec<(String, Vec<Case>)> {
    let mut files = vec![("empty".to_owned(), Vec::new())];
    let shapes: [&[u64]; 7] = [
        &[],
        &[0],
        &[1],
        &[3, 0, 1 << 40],
        &[7],
        &[2, 3, 5],
        &[1000, 333],
    ];
    for (encoding, big) in [
        (Encoding::Raw, false),
        (Encoding::Raw, true),
        (Encoding::Zstd, false),
    ] {
        for crc32c in [false, true] {
            let mut all = Vec::new();
            for (dtype, _) in DTYPES {
                for dims in shapes {
                    let name = format!("{dtype}/{dims:?}");
                    all.push(case(name, dtype, dims, encoding, big, crc32c));
                }
            }
            let order = if big { "big" } else { "little" };
            let checksum = if crc32c { "crc32c" } else { "no checksum" };
            files.push((format!("{} {order} {checksum}", encoding.name()), all));
        }
    }
    let mut mixed = Vec::new();
    for (at, (dtype, _)) in DTYPES.into_iter().cycle().take(100).enumerate() {
        let dims = [at as u64, 3];
        let encoding = [Encoding::Raw, Encoding::Zstd][at % 2];
        let big = encoding == Encoding::Raw && at % 4 == 0;
        let mut case = case(format!("t{at}"), dtype, &dims, encoding, big, at % 3 > 0);
        if at % 5 == 0 {
            case.custom = custom();
        }
        mixed.push(case);
    }
    files.push(("mixed".to_owned(), mixed.clone()));
    mixed.retain(|case| case.encoding == Encoding::Raw);
    files.push(("mixed raw".to_owned(), mixed));
    let names = ["", "a\0b", "../x", "キー", "\u{1F600}", &"n".repeat(70_000)];
    let named = |name: &str| case(name.into(), DType::I16, &[5], Encoding::Raw, false, true);
    files.push(("names".to_owned(), names.into_iter().map(named).collect()));
    let many = |at| {
        case(
            format!("model.layers.{at}"),
            DType::F32,
            &[4],
            Encoding::Raw,
            false,
            true,
        )
    };
    files.push(("many".to_owned(), (0..5000).map(many).collect()));
    files
}

fn case(
    name: String,
    dtype: DType,
    dims: &[u64],
    encoding: Encoding,
    big: bool,
    crc32c: bool,
) -> Case {
    let elements: u64 = if dims.contains(&0) {
        0
    } else {
        dims.iter().product()
    };
    let len = elements * dtype.size().unwrap_or(1);
    // All byte values, NaNs and other patterns among them; it compresses a little.
    let mut state = name.len() as u64 + len;
    let data = (0..len)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8 & [0xFF, 0x0F][(state >> 40) as usize % 2]
        })
        .collect();
    Case {
        name,
        dtype,
        dims: dims.to_vec(),
        data,
        encoding,
        big,
        crc32c,
        custom: Vec::new(),
    }
}

/// A custom field of every kind, as both sides name it.
fn custom() -> Vec<(&'static str, Value, TheirValue)> {
    let map = [(TheirValue::Integer(-1), TheirValue::Text("x".into()))];
    vec![
        (
            "zeta",
            Value::Int(u64::MAX.into()),
            TheirValue::Integer(u64::MAX.into()),
        ),
        (
            "int",
            Value::Int(-(1 << 40)),
            TheirValue::Integer(-(1 << 40)),
        ),
        ("half", Value::Float(1.5), TheirValue::Float(1.5)),
        (
            "single",
            Value::Float(f64::from(0.1f32)),
            TheirValue::Float(f64::from(0.1f32)),
        ),
        ("double", Value::Float(0.1), TheirValue::Float(0.1)),
        (
            "infinite",
            Value::Float(f64::NEG_INFINITY),
            TheirValue::Float(f64::NEG_INFINITY),
        ),
        (
            "text",
            Value::Text("é".into()),
            TheirValue::Text("é".into()),
        ),
        (
            "bytes",
            Value::Bytes(vec![0; 300]),
            TheirValue::Bytes(vec![0; 300]),
        ),
        ("truth", Value::Bool(true), TheirValue::Bool(true)),
        ("nothing", Value::Null, TheirValue::Null),
        (
            "",
            Value::List(vec![Value::Int(1), Value::List(vec![])]),
            TheirValue::Array(vec![TheirValue::Integer(1), TheirValue::Array(vec![])]),
        ),
        (
            "Map",
            Value::Map(vec![(Value::Int(-1), "x".into())]),
            TheirValue::Map(map.into()),
        ),
    ]
}

fn their_dtype(dtype: DType) -> TheirDType {
    let pair = DTYPES.iter().find(|(ours, _)| *ours == dtype);
    pair.map_or(TheirDType::Uint8, |(_, theirs)| theirs.clone())
}

fn write_theirs(cases: &[Case]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut writer = ZTensorWriter::new(Cursor::new(&mut bytes))?;
    for case in cases {
        let custom = case.custom.iter();
        let custom: BTreeMap<_, _> = custom
            .map(|(key, _, theirs)| ((*key).to_owned(), theirs.clone()))
            .collect();
        writer.add_tensor(
            &case.name,
            case.dims.clone(),
            their_dtype(case.dtype),
            Layout::Dense,
            match case.encoding {
                Encoding::Zstd => ztensor::models::Encoding::Zstd,
                _ => ztensor::models::Encoding::Raw,
            },
            case.data.clone(),
            case.big.then_some(DataEndianness::Big),
            match case.crc32c {
                true => ChecksumAlgorithm::Crc32c,
                false => ChecksumAlgorithm::None,
            },
            (!custom.is_empty()).then_some(custom),
        )?;
    }
    writer.finalize()?;
    Ok(bytes)
}

fn write_ours(cases: &[Case]) -> Result<Vec<u8>> {
    let mut builder = Builder::new();
    for case in cases {
        let mut options = TensorOptions::new().with_checksum(if case.crc32c {
                Algorithm::Crc32c
            } else {
                Algorithm::None
            })
            .with_endianness(if case.big {
                Endianness::Big
            } else {
                Endianness::Little
            });
        if case.encoding == Encoding::Zstd {
            options = options.with_zstd(0);
        }
        for (key, value, _) in &case.custom {
            options = options.with_custom(*key, value.clone())?;
        }
        builder.tensor_with(&case.name, tensor(case)?, options)?;
    }
    Ok(builder.to_vec()?)
}

fn tensor(case: &Case) -> Result<Tensor> {
    Ok(Tensor::new(
        case.dtype,
        Shape::new(&case.dims)?,
        case.data.clone(),
    )?)
}

/// Whether a file holds the cases, by our reader.
fn read_ours(bytes: &[u8], cases: &[Case]) -> Result<()> {
    let archive = Archive::from_bytes(bytes.to_vec())?;
    let report = archive.verify(&VerifyOptions::default())?;
    demand(archive.entries().len() == cases.len(), "number of tensors")?;
    for ((entry, case), item) in archive.entries().iter().zip(cases).zip(&report.items) {
        demand(entry.name() == case.name, "name")?;
        demand(archive.read(entry)? == tensor(case)?, &case.name)?;
        demand(entry.encoding() == case.encoding, "encoding")?;
        let checked = if case.crc32c {
            Outcome::Ok
        } else {
            Outcome::NotCovered
        };
        demand(item.outcome == checked, "checksum")?;
        let mut custom = case.custom.clone();
        custom.sort_by_key(|(key, _, _)| *key);
        let read = entry.custom();
        demand(read.len() == custom.len(), "number of custom fields")?;
        for (field, (key, value, _)) in read.iter().zip(custom) {
            demand(field.key() == key && field.value() == value, key)?;
        }
    }
    Ok(())
}

/// The same by theirs.
fn read_theirs(bytes: &[u8], cases: &[Case]) -> Result<()> {
    let mut reader = ZTensorReader::new(Cursor::new(bytes))?;
    let listed = reader.list_tensors().clone();
    demand(listed.len() == cases.len(), "number of tensors")?;
    for (entry, case) in listed.iter().zip(cases) {
        demand(entry.name == case.name, "name")?;
        demand(entry.dtype == their_dtype(case.dtype), "dtype")?;
        demand(entry.shape == case.dims, "shape")?;
        demand(entry.checksum.is_some() == case.crc32c, "checksum")?;
        demand(reader.read_raw_tensor_data(entry)? == case.data, &case.name)?;
        let custom = case.custom.iter();
        let custom: BTreeMap<_, _> = custom
            .map(|(key, _, theirs)| ((*key).to_owned(), theirs.clone()))
            .collect();
        demand(entry.custom_fields == custom, "custom fields")?;
    }
    Ok(())
}

fn demand(holds: bool, what: &str) -> Result<()> {
    match holds {
        true => Ok(()),
        false => Err(format!("{what:?} differs").into()),
    }
}

/// A changed bit of data is found by both, in files of both.
fn damage(tally: &mut Tally) -> Result<()> {
    for encoding in [Encoding::Raw, Encoding::Zstd] {
        let cases = [case("w".into(), DType::F32, &[100], encoding, false, true)];
        for (whose, mut bytes) in [
            ("theirs", write_theirs(&cases)?),
            ("ours", write_ours(&cases)?),
        ] {
            bytes[64 + 20] ^= 1;
            let what = format!("damaged {} of {whose}", encoding.name());
            let report = Archive::from_bytes(bytes.clone())?.verify(&VerifyOptions::default())?;
            tally.check(report.has_failed(), &what, "we don't see it");
            let mut reader = ZTensorReader::new(Cursor::new(&bytes))?;
            let read = reader.read_raw_tensor_data_by_name("w");
            tally.check(read.is_err(), &what, "they don't see it");
        }
    }
    Ok(())
}

/// They read tensors with a SHA-256, which they don't check, but say so on stderr.
fn sha256(tally: &mut Tally) -> Result<()> {
    let case = case("w".into(), DType::F32, &[100], Encoding::Raw, false, true);
    let mut builder = Builder::new();
    let options = TensorOptions::new().with_checksum(Algorithm::Sha256);
    builder.tensor_with("w", tensor(&case)?, options)?;
    let bytes = builder.to_vec()?;
    let mut reader = ZTensorReader::new(Cursor::new(&bytes))?;
    let read = reader.read_raw_tensor_data_by_name("w")?;
    tally.check(read == case.data, "sha256", "they read other data");
    let archive = Archive::from_bytes(bytes)?;
    let checksum = archive.entries().get(0).ok_or("no entry")?.checksum();
    let ours = matches!(checksum, Some(Checksum::Sha256(_)));
    tally.check(ours, "sha256", "we don't read it");
    Ok(())
}

/// How long each takes to open a file of 100,000 tensors; the median of nine.
fn open_times() -> Result<()> {
    let name = |at| format!("model.layers.{at}.weight");
    let cases: Vec<_> = (0..100_000)
        .map(|at| case(name(at), DType::F32, &[16], Encoding::Raw, false, true))
        .collect();
    let folder = std::env::temp_dir().join(format!("interop-ztensor-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("many.zt");
    std::fs::write(&path, write_ours(&cases)?)?;
    let median = |open: &dyn Fn() -> Result<usize>| -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..9 {
            let start = Instant::now();
            demand(open()? == cases.len(), "number of tensors")?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        Ok(times[4])
    };
    let ours = median(&|| Ok(Archive::open(&path)?.entries().len()))?;
    let theirs = median(&|| Ok(ZTensorReader::open(&path)?.list_tensors().len()))?;
    std::fs::remove_dir_all(&folder)?;
    println!(
        "100,000 tensors open in {ours:.1} ms, by the reference in {theirs:.1} ms: {:.2}x",
        ours / theirs
    );
    Ok(())
}
