//! What both sides are told to write.

use std::collections::BTreeMap;

use burnpack_format::{
    BlockSize, BoolStore, DTypeCode, QuantBlock, QuantMode, QuantParam, QuantScheme, QuantStore,
    QuantValue, Scalar,
};

/// The content of one file. Tensors are in the order in which they are placed.
#[derive(Clone, Debug, Default)]
pub struct Set {
    pub tensors: Vec<Tensor>,
    pub metadata: BTreeMap<String, String>,
    pub scalars: BTreeMap<String, Scalar>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub name: String,
    pub code: DTypeCode,
    pub dims: Vec<u64>,
    pub data: Vec<u8>,
    pub param_id: Option<u64>,
}

impl Set {
    /// Names, dtypes, shapes, bytes, ids, metadata and scalars, whatever the order.
    pub fn compare(&self, other: &Self, who: &str) -> Result<(), String> {
        let sorted = |set: &Self| {
            let mut tensors = set.tensors.clone();
            tensors.sort_by(|a, b| a.name.cmp(&b.name));
            tensors
        };
        let (ours, theirs) = (sorted(self), sorted(other));
        if ours.len() != theirs.len() {
            return Err(format!(
                "{who}: {} tensors, not {}",
                theirs.len(),
                ours.len()
            ));
        }
        for (ours, theirs) in ours.iter().zip(&theirs) {
            if ours != theirs {
                let name = &ours.name;
                return Err(format!("{who}: {name:?} is {theirs:?}, not {ours:?}"));
            }
        }
        if self.metadata != other.metadata {
            return Err(format!("{who}: metadata {:?}", other.metadata));
        }
        if self.scalars != other.scalars {
            return Err(format!("{who}: scalars {:?}", other.scalars));
        }
        Ok(())
    }
}

/// The same on every run: SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        let at = self.below(list.len() as u64);
        list[usize::try_from(at).expect("small")].clone()
    }

    fn bytes(&mut self, len: u64) -> Vec<u8> {
        (0..len).map(|_| self.next().to_le_bytes()[0]).collect()
    }

    fn name(&mut self) -> String {
        const PARTS: [&str; 10] = [
            "",
            "layer",
            ".",
            "weight",
            "0",
            "10",
            "9",
            "\u{e9}",
            "e\u{301}",
            "\u{1F525}\0",
        ];
        (0..self.below(8)).map(|_| self.pick(&PARTS)).collect()
    }
}

fn plain_codes() -> Vec<DTypeCode> {
    vec![
        DTypeCode::F64,
        DTypeCode::F32,
        DTypeCode::Flex32,
        DTypeCode::F16,
        DTypeCode::BF16,
        DTypeCode::I64,
        DTypeCode::I32,
        DTypeCode::I16,
        DTypeCode::I8,
        DTypeCode::U64,
        DTypeCode::U32,
        DTypeCode::U16,
        DTypeCode::U8,
        DTypeCode::Bool(BoolStore::Native),
        DTypeCode::Bool(BoolStore::U8),
        DTypeCode::Bool(BoolStore::U32),
    ]
}

/// Every scheme there is with up to two dims of blocks.
fn schemes() -> Vec<QuantScheme> {
    let mut schemes = Vec::new();
    let stores = [
        QuantStore::Native,
        QuantStore::PackedNative(0),
        QuantStore::PackedU32(0),
        QuantStore::PackedU32(1),
    ];
    let params = QuantParam::ALL.iter().copied();
    for &value in QuantValue::ALL {
        for store in stores {
            for &mode in QuantMode::ALL {
                let scheme = QuantScheme::new(value, store, mode);
                for param in params.clone() {
                    let mut tensor = scheme.clone();
                    tensor.tensor = Some(param);
                    schemes.push(tensor.clone());
                    for size in [&[4][..], &[2, 16]] {
                        let mut block = scheme.clone();
                        let size = BlockSize::new(size).expect("at most five");
                        block.block = Some(QuantBlock { size, dtype: param });
                        schemes.push(block.clone());
                        block.tensor = Some(QuantParam::F32);
                        schemes.push(block);
                    }
                }
            }
        }
    }
    schemes
}

fn tensor(random: &mut Random, name: String, code: DTypeCode, dims: Vec<u64>) -> Tensor {
    let elements: u64 = dims.iter().product();
    let len = match &code {
        DTypeCode::QFloat(scheme) => {
            let shape = burnpack_format::Shape::new(&dims).expect("small");
            scheme.expected_len(&shape).unwrap_or(elements)
        }
        code => elements * code.element_size().expect("not quantized"),
    };
    let data = match code {
        DTypeCode::Bool(BoolStore::Native) => random.bytes(len).iter().map(|b| b & 1).collect(),
        _ => random.bytes(len),
    };
    Tensor {
        name,
        code,
        dims,
        data,
        param_id: None,
    }
}

pub fn all() -> Vec<(String, Set)> {
    let mut random = Random(0x4255_524E);
    let mut sets = vec![("empty".to_owned(), Set::default())];

    let mut every = Set::default();
    for (at, code) in plain_codes().into_iter().enumerate() {
        let dims = vec![3, at as u64 + 1];
        let name = format!("{at} {code}");
        every.tensors.push(tensor(&mut random, name, code, dims));
    }
    sets.push(("every dtype".into(), every));

    let mut quantized = Set::default();
    for (at, scheme) in schemes().into_iter().enumerate() {
        let code = DTypeCode::QFloat(Box::new(scheme));
        let name = format!("w{at}");
        quantized
            .tensors
            .push(tensor(&mut random, name, code, vec![8, 32]));
    }
    sets.push(("every scheme".into(), quantized));

    let mut shapes = Set::default();
    for rank in 0..30 {
        let dims = (0..rank)
            .map(|axis| if axis % 7 == 0 { 2 } else { 1 })
            .collect();
        let name = format!("rank {rank}");
        shapes
            .tensors
            .push(tensor(&mut random, name, DTypeCode::F32, dims));
    }
    for (at, dims) in [vec![0], vec![3, 0], vec![0, 1 << 40]]
        .into_iter()
        .enumerate()
    {
        let name = format!("empty {at}");
        shapes
            .tensors
            .push(tensor(&mut random, name, DTypeCode::F64, dims));
    }
    sets.push(("shapes".into(), shapes));

    // Metadata of every length around a multiple of 256, where the padding changes most.
    for len in 400..530 {
        let mut set = Set::default();
        set.metadata.insert("k".into(), "v".repeat(len));
        set.tensors
            .push(tensor(&mut random, "w".into(), DTypeCode::U8, vec![5]));
        sets.push((format!("padding {len}"), set));
    }

    let mut scalars = Set::default();
    let floats = [
        0.0,
        -0.0,
        1.0,
        0.1,
        65504.0,
        65505.0,
        f64::MIN_POSITIVE,
        f64::from(f32::MIN_POSITIVE),
        5.960_464_477_539_063e-8,
        1e300,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f64::from_bits(0xFFF8_0000_0000_0000),
        f64::from_bits(0x7FF8_0000_0000_0001),
        f64::from_bits(0x7FF8_0000_2000_0000),
    ];
    for (at, value) in floats.into_iter().enumerate() {
        scalars.scalars.insert(format!("float {at}"), value.into());
    }
    let edges = [0, 23, 24, 255, 256, 65535, 65536, 1 << 32, i64::MAX];
    for value in edges.into_iter().chain([i64::MIN]) {
        scalars.scalars.insert(format!("int {value}"), value.into());
        scalars
            .scalars
            .insert(format!("not {value}"), (!value).into());
        let unsigned = Scalar::UInt(value.unsigned_abs());
        scalars.scalars.insert(format!("uint {value}"), unsigned);
    }
    scalars.scalars.insert("true".into(), true.into());
    scalars.scalars.insert("false".into(), false.into());
    sets.push(("scalars".into(), scalars));

    let mut many = Set::default();
    for at in 0..20_000u64 {
        let name = format!("layer.{}.weight", at.wrapping_mul(7919) % 20_011);
        let dims = vec![at % 9];
        let mut tensor = tensor(&mut random, name, DTypeCode::F16, dims);
        tensor.param_id = Some(random.next());
        many.tensors.push(tensor);
    }
    sets.push(("many tensors".into(), many));

    for at in 0..300 {
        sets.push((format!("random {at}"), random_set(&mut random)));
    }
    sets
}

fn random_set(random: &mut Random) -> Set {
    let mut set = Set::default();
    let schemes = schemes();
    let mut names = BTreeMap::new();
    for _ in 0..random.below(20) {
        names.insert(random.name(), ());
    }
    for name in names.into_keys() {
        let dims: Vec<u64> = (0..random.below(5)).map(|_| random.below(6)).collect();
        let code = if random.below(5) == 0 {
            DTypeCode::QFloat(Box::new(random.pick(&schemes)))
        } else {
            random.pick(&plain_codes())
        };
        let mut tensor = tensor(random, name, code, dims);
        if random.below(2) == 0 {
            let shift = u32::try_from(random.below(64)).expect("below 64");
            tensor.param_id = Some(random.next() >> shift);
        }
        let at = random.below(set.tensors.len() as u64 + 1);
        set.tensors
            .insert(usize::try_from(at).expect("small"), tensor);
    }
    for _ in 0..random.below(6) {
        set.metadata.insert(random.name(), random.name());
    }
    for _ in 0..random.below(6) {
        let shift = u32::try_from(random.below(64)).expect("below 64");
        let bits = random.next() >> shift;
        let scalar = match random.below(4) {
            0 => Scalar::Int(bits.cast_signed()),
            1 => Scalar::UInt(bits),
            2 => Scalar::Float(f64::from_bits(bits)),
            _ => Scalar::Bool(bits & 1 == 0),
        };
        set.scalars.insert(random.name(), scalar);
    }
    set
}
