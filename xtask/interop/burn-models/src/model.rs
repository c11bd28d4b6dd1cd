// One program for two releases: `burn`, `store` and `ndarray` are those of the one it is included for.

use std::path::Path;

use burn::module::{Module, Param, ParamId};
use burn::tensor::backend::Backend;
use burn::tensor::{Bool, Int, Tensor, TensorData};
use store::{BurnpackStore, ModuleSnapshot};

type Cpu = ndarray::NdArray<f32>;

/// What is kept: numbers of each kind that a module holds, booleans above all, since releases spell them
/// differently.
#[derive(Module, Debug)]
struct Encoder<B: Backend> {
    weight: Param<Tensor<B, 2>>,
    bias: Param<Tensor<B, 1>>,
    mask: Param<Tensor<B, 1, Bool>>,
    steps: Param<Tensor<B, 1, Int>>,
}

#[derive(Module, Debug)]
struct Whole<B: Backend> {
    encoder: Encoder<B>,
    head: Param<Tensor<B, 2>>,
}

impl<B: Backend> Encoder<B> {
    fn new(device: &B::Device, start: f32) -> Self {
        let weight: Vec<f32> = (0..60).map(|at| start + at as f32 / 7.0).collect();
        let bias: Vec<f32> = (0..5).map(|at| -start * at as f32).collect();
        let mask: Vec<bool> = (0..9).map(|at| (at + start as usize) % 3 == 0).collect();
        let steps: Vec<i64> = (0..4).map(|at| i64::from(at) << 20).collect();
        let id = ParamId::new;
        Self {
            weight: Param::initialized(
                id(),
                Tensor::from_data(TensorData::new(weight, [12, 5]), device),
            ),
            bias: Param::initialized(id(), Tensor::from_data(TensorData::new(bias, [5]), device)),
            mask: Param::initialized(id(), Tensor::from_data(TensorData::new(mask, [9]), device)),
            steps: Param::initialized(id(), Tensor::from_data(TensorData::new(steps, [4]), device)),
        }
    }

    fn data(&self) -> [TensorData; 4] {
        [
            self.weight.val().into_data(),
            self.bias.val().into_data(),
            self.mask.val().into_data(),
            self.steps.val().into_data(),
        ]
    }
}

/// Saves a model, lets `change` make of it a file of its encoder alone, loads that, and compares.
pub fn run(folder: &Path, change: impl FnOnce(&Path, &Path)) {
    let device = Default::default();
    let head = Tensor::from_data(TensorData::new(vec![0.5_f32; 6], [2, 3]), &device);
    let encoder = Encoder::<Cpu>::new(&device, 1.0);
    let head = Param::initialized(ParamId::new(), head);
    let whole = Whole { encoder, head };
    let saved = folder.join("whole.bpk");
    let mut file = BurnpackStore::from_file(&saved);
    whole.save_into(&mut file).expect("Burn saves the model");

    let changed = folder.join("encoder.bpk");
    change(&saved, &changed);

    let mut loaded = Encoder::<Cpu>::new(&device, 3.0);
    let before = loaded.data();
    assert!(before != whole.encoder.data(), "nothing would be compared");
    let mut file = BurnpackStore::from_file(&changed);
    let result = loaded
        .load_from(&mut file)
        .expect("Burn loads what is left");
    assert!(
        result.errors.is_empty() && result.missing.is_empty(),
        "{result:?}"
    );
    assert_eq!(result.applied.len(), 4, "{result:?}");
    assert_eq!(
        loaded.data(),
        whole.encoder.data(),
        "the values are those that were saved"
    );
}
