//! The tables of `docs/conversion.md`, made by planning small models for every target. With
//! `UPDATE_DOCS=1` the test writes the page instead of comparing it.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use tensorfmt::convert::{Loss, LossKind, Model, Options, Plan, PrimitivObject, Target, plan};
use tensorfmt::{
    Archive, DType, Error, Order, Shape, Tensor, Value, WriteOptions, aero, burnpack, safetensors,
    ztensor,
};

use crate::matrix::file_name;

#[test]
fn the_tables_of_the_conversion_page_are_what_the_code_does() {
    let page = test_data::workspace_root().join("docs/conversion.md");
    let text = fs::read_to_string(&page).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let probe = Probe(folder.path().to_owned());
    let mut made = text.clone();
    for (name, table) in [
        ("tensors", tensors(&probe)),
        ("metadata", metadata(&probe)),
        ("attributes", attributes(&probe)),
    ] {
        made = replace(&made, name, &table);
    }
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        fs::write(&page, made).unwrap();
    } else {
        let command = "UPDATE_DOCS=1 cargo test -p tensorfmt --all-features --test it tables";
        assert!(
            text == made,
            "docs/conversion.md is not what the code does; write it with\n{command}\n\n{made}"
        );
    }
}

/// The page with the table between its two comments replaced.
fn replace(page: &str, name: &str, table: &str) -> String {
    let (begin, end) = (format!("<!-- table: {name} -->\n"), "<!-- end -->");
    let (before, rest) = page.split_once(&begin).expect(name);
    let (_, after) = rest.split_once(end).expect(name);
    format!("{before}{begin}{table}{end}{after}")
}

/// The head of a line, and a cell per target.
type Line = (String, Vec<String>);

/// A Markdown table with a column per target; lines of a group with the same cells become one.
fn table(groups: &[Vec<Line>]) -> String {
    let mut out = String::from("|");
    for &target in Target::ALL {
        write!(out, " | {}", target.name()).unwrap();
    }
    out.push_str(" |\n|---");
    out.push_str(&"|---".repeat(Target::ALL.len()));
    out.push_str("|\n");
    for lines in groups {
        let mut merged: Vec<(Vec<&str>, &[String])> = Vec::new();
        for (head, cells) in lines {
            match merged.iter_mut().find(|(_, known)| known == cells) {
                Some((heads, _)) => heads.push(head),
                None => merged.push((vec![head], cells)),
            }
        }
        for (heads, cells) in merged {
            writeln!(out, "| {} | {} |", heads.join(", "), cells.join(" | ")).unwrap();
        }
    }
    out
}

fn line(head: impl Into<String>, cell: impl Fn(Target) -> String) -> Line {
    (
        head.into(),
        Target::ALL.iter().map(|&target| cell(target)).collect(),
    )
}

/// A folder to write into.
struct Probe(PathBuf);

impl Probe {
    fn write(&self, plan: &Plan) -> Archive {
        let path = self.0.join(file_name(plan.target()));
        let mut options = WriteOptions::default();
        options.durable = false;
        plan.write_file(&path, &options).unwrap();
        Archive::open(&path).unwrap()
    }
}

/// A model of one tensor that safetensors can hold.
fn one(name: &str, dtype: DType, dims: &[u64]) -> Model {
    let shape = Shape::new(dims).unwrap();
    let len = usize::try_from(shape.byte_len(dtype).unwrap().unwrap()).unwrap();
    let tensor = Tensor::new(dtype, shape, vec![1; len]).unwrap();
    let mut builder = safetensors::Builder::new();
    builder.tensor(name, tensor).unwrap();
    model(builder.to_vec().unwrap())
}

fn model(bytes: Vec<u8>) -> Model {
    Model::of(&Archive::from_bytes(bytes).unwrap())
}

fn case(format: &str, name: &str) -> Vec<u8> {
    let cases = test_data::cases(format).unwrap();
    cases
        .into_iter()
        .find(|case| case.name == name)
        .unwrap()
        .bytes
}

/// The plan, `None` where the target can't hold the model.
fn planned(model: Model, target: Target, options: &Options) -> Option<Plan> {
    match plan(model, target, options) {
        Ok(plan) => Some(plan),
        Err(Error::Refused(_)) => None,
        Err(error) => panic!("{target:?}: {error}"),
    }
}

fn yes_or_no(model: Model, target: Target) -> String {
    let word = match planned(model, target, &Options::default()) {
        Some(plan) => match plan.losses() {
            [] => "yes",
            losses => panic!("{target:?}: {losses:?}"),
        },
        None => "no",
    };
    word.into()
}

fn tensors(probe: &Probe) -> String {
    let mut lines = Vec::new();
    for &dtype in DType::ALL {
        // No format that we read has the others.
        if Target::Safetensors.holds(dtype) {
            lines.push(line(dtype.name(), |target| {
                yes_or_no(one("x", dtype, &[2]), target)
            }));
        }
    }
    for (format, name, head) in [
        ("aero", "packed_bare", "packed"),
        ("burnpack", "quant_new_packed", "qfloat"),
    ] {
        lines.push(line(head, |target| {
            match yes_or_no(model(case(format, name)), target) {
                yes if yes == "yes" => "its own".into(),
                no => no,
            }
        }));
    }
    let dtypes = std::mem::take(&mut lines);
    lines.push(line("scalars", |target| {
        let scalar = || one("x", DType::F32, &[]);
        if planned(scalar(), target, &Options::default()).is_some() {
            return "yes".into();
        }
        let mut options = Options::default();
        options.allow_empty = true;
        options.promote_scalars = true;
        let plan = planned(scalar(), target, &options).expect("promoted");
        assert!(matches!(
            plan.losses(),
            [Loss {
                kind: LossKind::Shape,
                ..
            }]
        ));
        let archive = probe.write(&plan);
        format!(
            "as {}, asked for",
            archive.entries().get(0).unwrap().shape()
        )
    }));
    lines.push(line("empty tensors", |target| {
        yes_or_no(one("x", DType::F32, &[2, 0]), target)
    }));
    lines.push(line("dims", |target| {
        let holds = |rank: usize| {
            let mut dims = vec![1; rank];
            dims[rank - 1] = 2;
            planned(one("x", DType::F32, &dims), target, &Options::default()).is_some()
        };
        match (1..=300).take_while(|&rank| holds(rank)).count() {
            300 => "any".into(),
            most => format!("up to {most}"),
        }
    }));
    lines.push(line("dims of 1 at the end", |target| {
        let plan = planned(one("x", DType::F32, &[2, 1]), target, &Options::default()).unwrap();
        match plan.losses() {
            [] => "kept".into(),
            [loss] if loss.kind == LossKind::Shape => "dropped, a loss".into(),
            losses => panic!("{target:?}: {losses:?}"),
        }
    }));
    lines.push(line("order", |target| {
        let plan = planned(one("x", DType::F32, &[2, 3]), target, &Options::default()).unwrap();
        match probe.write(&plan).entries().get(0).unwrap().order() {
            Order::RowMajor => "row-major".into(),
            Order::ColumnMajor => "column-major".into(),
        }
    }));
    let long = |len: usize| "n".repeat(len);
    for (head, name) in [
        ("the empty name", String::new()),
        ("a name with NUL", "a\0b".into()),
        ("a name of 4097 bytes", long(4097)),
        ("a name of 65536 bytes", long(65536)),
    ] {
        lines.push(line(head, |target| {
            yes_or_no(one(&name, DType::F32, &[2]), target)
        }));
    }
    lines.push(line("a tensor named `a` beside `a.b`", |target| {
        let mut builder = safetensors::Builder::new();
        for name in ["a", "a.b"] {
            let tensor = Tensor::from_slice(&[1.0f32], &[1]).unwrap();
            builder.tensor(name, tensor).unwrap();
        }
        let model = || model(builder.to_vec().unwrap());
        let mut options = Options::default();
        options.allow_empty = true;
        let dims_of_one = |plan: Plan| plan.losses().iter().all(|l| l.kind == LossKind::Shape);
        if planned(model(), target, &options).is_some_and(dims_of_one) {
            return "yes".into();
        }
        options.whole_names = true;
        assert!(planned(model(), target, &options).is_some());
        "names kept whole, asked for".into()
    }));
    table(&[dtypes, lines])
}

/// Equal, NaN being itself.
fn same(a: &Value, b: &Value) -> bool {
    format!("{a:?}") == format!("{b:?}")
}

fn metadata(probe: &Probe) -> String {
    let list = Value::List(vec![1u64.into(), "a".into(), Value::Null]);
    let map = Value::Map(vec![("a".into(), 1u64.into()), ("b".into(), list.clone())]);
    let values = [
        ("text", Value::from("hello")),
        ("integers of u32", Value::Int(7)),
        ("integers of i64", Value::Int(i64::MIN.into())),
        ("integers of u64", Value::Int(u64::MAX.into())),
        ("wider integers", Value::Int(i128::from(u64::MAX) + 1)),
        ("floats exact in 32 bits", Value::Float(0.5)),
        ("other floats", Value::Float(0.1)),
        ("NaN", Value::Float(f64::NAN)),
        ("infinities", Value::Float(f64::NEG_INFINITY)),
        ("true and false", Value::Bool(true)),
        ("null", Value::Null),
        ("lists", list),
        ("maps", map),
        ("bytes", Value::Bytes(vec![0, 255])),
    ];
    let mut lines = Vec::new();
    for (head, value) in values {
        lines.push(line(head, |target| {
            let model = |tensors: bool| {
                let mut model = one("x", DType::F32, &[2]);
                model.retain(|_| tensors);
                model.set_metadata("key", value.clone());
                model
            };
            let tensor = fate(probe, model(true), &value, target, None);
            if target != Target::Primitiv {
                return tensor;
            }
            let object = Some(PrimitivObject::Optimizer);
            match fate(probe, model(false), &value, target, object) {
                optimizer if optimizer == tensor => tensor,
                optimizer => format!("{optimizer} in an Optimizer, else {tensor}"),
            }
        }));
    }
    table(&[lines])
}

/// What becomes of the metadata `key` of a model.
fn fate(
    probe: &Probe,
    model: Model,
    value: &Value,
    target: Target,
    object: Option<PrimitivObject>,
) -> String {
    let mut options = Options::default();
    options.allow_empty = true;
    options.primitiv = object;
    let Some(plan) = planned(model, target, &options) else {
        return "refused".into();
    };
    let said = plan.losses().iter().any(|loss| loss.item == "key");
    let archive = probe.write(&plan);
    let find = |pairs: Vec<(String, Value)>| {
        let found = pairs.into_iter().find(|(key, _)| key == "key");
        found.map(|(_, value)| value)
    };
    let (stored, understood) = (find(archive.metadata()), find(Model::of(&archive).metadata));
    match (stored, understood, said) {
        (None, None, true) => "lost".into(),
        (Some(stored), _, false) if same(&stored, value) => "kept".into(),
        (Some(Value::Text(_)), Some(understood), false) if same(&understood, value) => {
            "kept, as text".into()
        }
        (Some(Value::Int(_)), _, true) => "as an integer, a loss".into(),
        (Some(Value::Float(_)), _, true) => "as a float, a loss".into(),
        (Some(Value::Text(_)), _, true) => "as text, a loss".into(),
        // Nothing may change without a word.
        other => panic!("{value:?} to {target:?}: {other:?}"),
    }
}

/// Something that is said about one tensor: how a file with it is made, and how to see it.
struct Attribute {
    head: &'static str,
    home: Target,
    bytes: Vec<u8>,
    object: Option<PrimitivObject>,
}

fn attributes(probe: &Probe) -> String {
    let tensor = || Tensor::from_slice(&[1.0f32, 2.0], &[2]).unwrap();
    let mut bpk = burnpack::Builder::new();
    let id = burnpack::TensorOptions::new().with_param_id(u64::MAX);
    bpk.tensor_with("x", tensor(), id).unwrap();
    let mut zt = ztensor::Builder::new();
    let how = ztensor::TensorOptions::new()
        .with_custom("scale", Value::Float(0.5))
        .and_then(|how| how.with_custom("group", Value::List(vec![1u64.into(), "a".into()])))
        .unwrap();
    zt.tensor_with("x", tensor(), how).unwrap();
    let mut quant = aero::Builder::new();
    let how = aero::TensorOptions::new().with_quant_id(7);
    let how = how.with_extra("quant_params", "abc").unwrap();
    quant.tensor_with("x", tensor(), how).unwrap();
    let mut flags = aero::Builder::new();
    let how = aero::TensorOptions::new().with_flags(5);
    flags.tensor_with("x", tensor(), how).unwrap();
    let attributes = [
        (
            "parameter ids (burnpack)",
            Target::Burnpack,
            bpk.to_vec().unwrap(),
        ),
        (
            "dtype `Flex32` (burnpack)",
            Target::Burnpack,
            case("burnpack", "dtype_flex32"),
        ),
        (
            "bools held as u32 (burnpack)",
            Target::Burnpack,
            case("burnpack", "bool_u32"),
        ),
        (
            "custom fields (ztensor)",
            Target::Ztensor,
            zt.to_vec().unwrap(),
        ),
        (
            "quantization ids and parameters (aero)",
            Target::Aero,
            quant.to_vec().unwrap(),
        ),
        ("flags (aero)", Target::Aero, flags.to_vec().unwrap()),
        (
            "batches (primitiv)",
            Target::Primitiv,
            case("primitiv", "tensor_batch"),
        ),
    ];
    let mut lines = Vec::new();
    for (head, home, bytes) in attributes {
        let object = (home == Target::Primitiv).then_some(PrimitivObject::Tensor);
        let attribute = Attribute {
            head,
            home,
            bytes,
            object,
        };
        lines.push(line(head, |target| detour(probe, &attribute, target)));
    }
    table(&[lines])
}

/// All that a file says about its first tensor.
fn said(archive: &Archive) -> String {
    let entry = archive.entries().get(0).unwrap();
    let extra = match (archive, &entry) {
        (Archive::Aero(archive), tensorfmt::Entry::Aero(entry)) => archive.extra(*entry),
        _ => Vec::new(),
    };
    // The address of a primitiv tensor is its name.
    let mut extras = entry.extras();
    extras.retain(|(key, _)| *key != "path");
    format!("{} {:?} {extra:?}", entry.dtype_name(), extras)
}

/// Whether the attribute is there again after a way through `target` and back.
fn detour(probe: &Probe, attribute: &Attribute, target: Target) -> String {
    let source = Archive::from_bytes(attribute.bytes.clone()).unwrap();
    let mut options = Options::default();
    options.allow_empty = true;
    options.primitiv = attribute.object;
    // Tensors of primitiv may have no name, others must have one.
    let named = |archive: &Archive| {
        let mut model = Model::of(archive);
        model.rename(|_| "x".into()).unwrap();
        model
    };
    // Not for what is said, but for the dtype.
    let Some(there) = planned(named(&source), target, &options) else {
        return "refused".into();
    };
    let lost: Vec<&Loss> = there
        .losses()
        .iter()
        .filter(|loss| loss.kind == LossKind::Attribute)
        .collect();
    let middle = probe.write(&there);
    let back = planned(named(&middle), attribute.home, &options).expect(attribute.head);
    let same = said(&probe.write(&back)) == said(&source);
    match (same, lost.is_empty()) {
        (true, true) => "kept".into(),
        (false, false) => "lost".into(),
        (same, _) => panic!(
            "{} to {target:?}: {same}, {lost:?}, {} for {}",
            attribute.head,
            said(&probe.write(&back)),
            said(&source)
        ),
    }
}

/// A page without one of its tables is no page that the test could hold.
#[test]
fn every_table_has_its_place() {
    let page = "a\n<!-- table: t -->\nold\n<!-- end -->\nb\n";
    let made = replace(page, "t", "new\n");
    assert_eq!(made, "a\n<!-- table: t -->\nnew\n<!-- end -->\nb\n");
}
