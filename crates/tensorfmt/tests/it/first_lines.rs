//! What people who have read nothing type first: each of these lines compiles, and does what it says.

use tensorfmt::convert::{Model, Options};
use tensorfmt::{Archive, DType, Outcome, Tensor, Value, VerifyOptions, WriteOptions};

#[test]
fn what_is_typed_first_works() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.bpk");

    // Tensors from vectors and back.
    let w = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
    let dims: Vec<usize> = w.dims_usize()?;
    assert_eq!(dims, [2, 3]);
    let elements: Vec<f32> = w.clone().into_vec()?;
    assert_eq!(elements.len(), 6);

    // A dtype out of a text, and a text out of it.
    let dtype: DType = "float32".parse()?;
    assert_eq!(dtype, w.dtype());
    assert_eq!(dtype.to_string(), "f32");

    // A file of what is in memory.
    let mut model = Model::new();
    model.tensor("w", w);
    model.metadata.push(("step".into(), Value::from(7i64)));
    model.save(
        folder.path().join("model.mag"),
        &Options::default(),
        &WriteOptions::default(),
    )?;
    let mut builder = tensorfmt::burnpack::Builder::new();
    builder.tensor("w", Tensor::from_slice(&[1u8, 2], &[2])?)?;
    builder.write_file(&path)?;
    let twin = builder.clone();
    assert_eq!(twin.to_vec()?, std::fs::read(&path)?);

    // What is in a file: iterate, count, print, look up.
    let archive = Archive::open(&path)?;
    for entry in &archive {
        assert_eq!(entry.to_string(), "w u8 [2]");
    }
    assert_eq!((archive.len(), archive.is_empty()), (1, false));
    assert!(archive.entries().get(0).is_some());
    assert_eq!(
        archive
            .entries()
            .map(|entry| entry.name())
            .collect::<Vec<_>>(),
        ["w"]
    );
    let mag = Archive::open(folder.path().join("model.mag"))?;
    let step = mag.metadata_value("step").ok_or("no step")?;
    assert_eq!(
        (step.as_i64(), step.as_u64(), step.as_f64()),
        (Some(7), Some(7), Some(7.0))
    );
    assert_eq!(
        (step.as_bool(), step.as_str(), step.as_list()),
        (None, None, None)
    );

    // Reading into memory of one's own.
    let entry = archive.entry("w").ok_or("no w")?;
    let mut bytes = [0; 2];
    archive.read_into(entry, &mut bytes)?;
    assert_eq!(bytes, [1, 2]);

    // Checking, and saying so.
    let report = archive.verify(&VerifyOptions::default().with_threads(1).with_strict(true))?;
    assert_eq!(report.count(Outcome::Failed), 0);
    assert!(!report.to_string().is_empty());

    // What went wrong.
    let error = archive.read("v").unwrap_err();
    assert_eq!(
        error.to_string(),
        "no tensor named \"v\"; did you mean \"w\"?"
    );
    Ok(())
}
