use arbitrary::Arbitrary;
use tensor_core::{DType, Order, Shape, Tensor};

/// Calls of a builder. Each codec takes what it has a place for.
#[derive(Arbitrary, Debug)]
pub struct Input {
    /// Tensors, in the order of the calls.
    pub tensors: Vec<TensorInput>,
    /// Metadata with text values.
    pub texts: Vec<(String, String)>,
    /// Metadata with integer values.
    pub integers: Vec<(String, i64)>,
    /// Metadata with float values.
    pub floats: Vec<(String, f64)>,
    /// What options are set from.
    pub options: [u8; 8],
}

/// One tensor.
#[derive(Arbitrary, Debug)]
pub struct TensorInput {
    /// Its name, which may be in use already.
    pub name: String,
    dtype: u8,
    dims: Vec<u8>,
    fill: u8,
    column_major: bool,
    /// What options are set from.
    pub options: [u8; 4],
}

impl TensorInput {
    /// The tensor, of at most some thousand elements.
    pub fn tensor(&self) -> Option<Tensor> {
        let dtype = DType::ALL[usize::from(self.dtype) % DType::ALL.len()];
        let mut elements = 1;
        let mut dims = Vec::new();
        for &dim in &self.dims {
            let dim = u64::from(dim % 24);
            elements *= dim.max(1);
            if elements > 4096 || dims.len() > 300 {
                break;
            }
            dims.push(dim);
        }
        let shape = Shape::new(&dims).ok()?;
        let len = shape.byte_len(dtype).ok()?.unwrap_or(self.fill.into());
        let data: Vec<u8> = (0..len)
            .map(|at| (at as u8).wrapping_mul(31) ^ self.fill)
            .collect();
        let tensor = Tensor::new(dtype, shape, data).ok()?;
        Some(match self.column_major {
            true => tensor.with_order(Order::ColumnMajor),
            false => tensor,
        })
    }
}

impl Input {
    /// Gives every tensor to `add`, and hands back those that it took.
    pub fn add_all<E>(
        &self,
        mut add: impl FnMut(&TensorInput, Tensor) -> Result<(), E>,
    ) -> Vec<(&str, Tensor)> {
        let mut taken = Vec::new();
        for input in &self.tensors {
            let Some(tensor) = input.tensor() else {
                continue;
            };
            if add(input, tensor.clone()).is_ok() {
                taken.push((&*input.name, tensor));
            }
        }
        taken
    }

    /// The bit at `at` of the options.
    pub fn flag(&self, at: usize) -> bool {
        self.options[at / 8] >> (at % 8) & 1 == 1
    }
}
