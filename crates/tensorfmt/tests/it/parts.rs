//! Sets whose parts are written by workers that never talk, and joined.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tensorfmt::convert::{Model, Options, PartFault, PartProblem, Plan, Target, join, plan};
use tensorfmt::{Archive, DType, Error, Part, Tensor, WriteOptions};

const FORMATS: [&str; 6] = [
    "mag",
    "ztensor",
    "burnpack",
    "aero",
    "primitiv",
    "safetensors",
];
const TARGETS: [(Target, &str); 2] = [
    (Target::AeroSet, "model.aeroset.json"),
    (Target::SafetensorsSet, "model.safetensors.index.json"),
];

/// What is in a folder, by the names of files.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

fn once() -> WriteOptions<'static> {
    WriteOptions::default()
        .with_create_new(true)
        .with_durable(false)
}

fn force() -> WriteOptions<'static> {
    WriteOptions::default().with_durable(false)
}

/// A model of tensors of several sizes and dtypes, with metadata.
fn model(value: f32) -> Model {
    let mut model = Model::new();
    for layer in 0..7u64 {
        let rows = 1 + layer * layer;
        let values = vec![value + layer as f32; usize::try_from(rows * 8).unwrap()];
        let weight = Tensor::from_slice(&values, &[rows, 8]).unwrap();
        model.tensor(format!("layers.{layer}.weight"), weight);
        let steps = Tensor::from_slice(&[7, 8, value.to_le_bytes()[2]], &[3]).unwrap();
        model.tensor(format!("layers.{layer}.steps"), steps);
    }
    model.set_metadata("model_name", "tiny");
    model.set_metadata("epoch", 3i64);
    model
}

fn options(parts: u32) -> Options {
    let mut options = Options::default();
    options.parts = Some(parts);
    options
}

fn planned(model: Model, target: Target, options: &Options) -> Plan {
    plan(model, target, options).unwrap()
}

fn part(number: u32, of: u32) -> Part {
    Part::new(number, of).unwrap()
}

/// Writes all parts from plans of their own, in an order that is none, one of them twice, and joins them.
fn by_parts(model: &dyn Fn() -> Model, target: Target, options: &Options, path: &Path) {
    let of = options.parts.unwrap();
    let mut numbers: Vec<u32> = (1..=of).rev().collect();
    let middle = numbers.len() / 2;
    numbers.rotate_left(middle);
    numbers.push(numbers[0]);
    for number in numbers {
        let plan = planned(model(), target, options);
        assert!(plan.write_part(part(number, of), path, &once()).unwrap());
        assert!(!path.exists());
    }
    let joined = join(path, &once()).unwrap();
    assert_eq!((joined.parts, joined.before), (of, false));
}

fn faults(path: &Path, options: &WriteOptions<'_>) -> Vec<PartFault> {
    let before = files(path.parent().unwrap());
    let Err(Error::Unjoined { faults, .. }) = join(path, options) else {
        panic!("joined");
    };
    // Nothing has appeared, and nothing is gone.
    assert_eq!(files(path.parent().unwrap()), before);
    faults
}

#[test]
fn a_set_of_parts_is_byte_for_byte_what_one_process_writes() {
    let mut sets = 0;
    for format in FORMATS {
        for case in test_data::cases(format).unwrap() {
            let Ok(archive) = Archive::from_bytes(case.bytes.clone()) else {
                continue;
            };
            for (target, name) in TARGETS {
                let mut options = Options::default();
                options.skip_unsupported = true;
                options.tensor_hash = target == Target::AeroSet && archive.len() % 2 == 0;
                options.ihsh = options.tensor_hash;
                if target == Target::AeroSet {
                    options.max_shard_bytes = Some(64);
                }
                let of = |parts: u32| {
                    let mut options = options;
                    options.parts = Some(parts);
                    options
                };
                for parts in 1..=4 {
                    let whole = match plan(Model::of(&archive), target, &of(parts)) {
                        Ok(plan) => plan,
                        // Fewer tensors than parts, or what no target holds.
                        Err(Error::Usage(_) | Error::Refused(_)) => continue,
                        Err(error) => panic!("{format} {}: {error}", case.name),
                    };
                    let (one, several) =
                        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
                    if whole.write_file(one.path().join(name), &force()).is_err() {
                        continue; // damaged data
                    }
                    let again = || Model::of(&Archive::from_bytes(case.bytes.clone()).unwrap());
                    if let Err(error) = Archive::open(one.path().join(name)) {
                        panic!("{format} {} to {target:?}: {error}", case.name);
                    }
                    by_parts(&again, target, &of(parts), &several.path().join(name));
                    let (one, several) = (files(one.path()), files(several.path()));
                    assert_eq!(
                        several.keys().collect::<Vec<_>>(),
                        one.keys().collect::<Vec<_>>()
                    );
                    assert!(
                        several == one,
                        "{format} {} in {parts}: {target:?}",
                        case.name
                    );
                    sets += 1;
                }
            }
        }
    }
    assert!(sets > 100, "{sets}");
}

#[test]
fn tensors_of_sets_and_of_merged_files_go_to_parts_alike() {
    let folder = tempfile::tempdir().unwrap();
    let sources = ["a.aeroset.json", "b.safetensors.index.json", "c.zt"];
    for (source, value) in sources.into_iter().zip([1.0, 2.0, 3.0]) {
        let mut model = model(value);
        model.rename(|name| format!("{source}.{name}")).unwrap();
        let mut options = Options::default();
        options.max_shard_bytes = source.contains(".json").then_some(1000);
        model
            .save(folder.path().join(source), &options, &force())
            .unwrap();
    }
    let merged = || {
        let open = |name: &str| {
            let archive = Archive::open(folder.path().join(name)).unwrap();
            (name.to_owned(), Model::of(&archive))
        };
        let (mut model, _) =
            Model::merge(sources.into_iter().map(open).collect(), Default::default()).unwrap();
        model.cast("steps", DType::I32, |name| name.ends_with("steps"));
        model
    };
    for (target, name) in TARGETS {
        let (one, several) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let plan = planned(merged(), target, &options(5));
        plan.write_file(one.path().join(name), &force()).unwrap();
        by_parts(&merged, target, &options(5), &several.path().join(name));
        assert!(files(several.path()) == files(one.path()), "{name}");
        let archive = Archive::open(several.path().join(name)).unwrap();
        assert!(!archive.verify(&Default::default()).unwrap().has_failed());
        assert_eq!(archive.len(), 42);

        // Each part knows what it is made of.
        let mut sources: Vec<(usize, usize)> = Vec::new();
        for planned in plan.parts() {
            for input in 0..4 {
                let positions = plan.sources_of(planned.part, input);
                sources.extend(positions.into_iter().map(|at| (input, at)));
            }
        }
        sources.sort_unstable();
        let all = (0..3).flat_map(|input| (0..14).map(move |at| (input, at)));
        assert_eq!(sources, all.collect::<Vec<_>>());
    }
}

#[test]
fn two_workers_with_one_part_don_t_hinder_each_other() {
    for (target, name) in TARGETS {
        let (one, several) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        planned(model(1.0), target, &options(2))
            .write_file(one.path().join(name), &force())
            .unwrap();
        let path = &several.path().join(name);
        std::thread::scope(|scope| {
            for worker in 0..8 {
                scope.spawn(move || {
                    let plan = planned(model(1.0), target, &options(2));
                    plan.write_part(part(1 + worker % 2, 2), path, &once())
                        .unwrap();
                });
            }
        });
        join(path, &once()).unwrap();
        assert!(files(several.path()) == files(one.path()), "{name}");
    }
}

#[test]
fn what_is_missing_damaged_or_of_another_plan_is_named() {
    for (target, name) in TARGETS {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join(name);
        let write = |model: Model, options: &Options, number: u32| {
            let plan = planned(model, target, options);
            let part = part(number, options.parts.unwrap());
            plan.write_part(part, path, &force()).unwrap();
            plan.part_file(part, path).unwrap()
        };
        let problems = |options: &WriteOptions<'_>| {
            let faults = faults(path, options);
            let problem = |fault: PartFault| (fault.part.to_string(), fault.problem);
            faults.into_iter().map(problem).collect::<Vec<_>>()
        };
        let named = |part: &str, problem: PartProblem| vec![(part.to_owned(), problem)];
        assert!(problems(&once()).is_empty());
        write(model(1.0), &options(3), 1);
        let third = write(model(1.0), &options(3), 3);
        assert_eq!(problems(&once()), named("2/3", PartProblem::Missing));

        // The same tensors with other values.
        write(model(2.0), &options(3), 2);
        let other = PartProblem::OtherPlan("of another input, or with other changes to it");
        assert_eq!(problems(&once()), named("2/3", other.clone()));
        assert_eq!(problems(&force()), named("2/3", PartProblem::Missing));
        let mut renamed = model(1.0);
        renamed
            .rename(|name| name.replace("weight", "height"))
            .unwrap();
        write(renamed, &options(3), 2);
        assert_eq!(problems(&once()), named("2/3", other));
        let mut changed = options(3);
        changed.cast = Some(DType::F16);
        write(model(1.0), &changed, 2);
        let other = PartProblem::OtherPlan("with other options");
        assert_eq!(problems(&once()), named("2/3", other));
        write(model(1.0), &options(3), 2);

        // One of many more parts, left by an earlier run.
        let stale = write(model(1.0), &options(7), 5);
        let other = PartProblem::OtherPlan("with another number of parts");
        assert_eq!(problems(&once()), named("5/7", other));

        let whole = fs::read(&third).unwrap();
        for (damaged, problem) in [
            (whole[..whole.len() - 1].to_vec(), PartProblem::Changed),
            (
                [&whole[..whole.len() - 1], &[!whole[whole.len() - 1]]].concat(),
                PartProblem::Changed,
            ),
        ] {
            fs::write(&third, damaged).unwrap();
            assert!(problems(&force()).contains(&("3/3".to_owned(), problem)));
        }
        fs::remove_file(&third).unwrap();
        assert!(problems(&force()).contains(&("3/3".to_owned(), PartProblem::Missing)));
        fs::write(&third, &whole).unwrap();

        // Parts of plans that are not meant go with the only plan that is whole.
        join(path, &force()).unwrap();
        assert!(!stale.exists());
        let one = tempfile::tempdir().unwrap();
        planned(model(1.0), target, &options(3))
            .write_file(one.path().join(name), &force())
            .unwrap();
        assert!(files(folder.path()) == files(one.path()), "{name}");
    }
}

#[test]
fn of_two_plans_that_are_whole_none_is_guessed() {
    for (target, name) in TARGETS {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join(name);
        for of in [2, 3] {
            for number in 1..=of {
                let plan = planned(model(1.0), target, &options(of));
                plan.write_part(part(number, of), path, &once()).unwrap();
            }
        }
        for options in [once(), force()] {
            let faults = faults(path, &options);
            assert_eq!(faults.len(), 2, "{faults:?}");
        }
    }
}

#[test]
fn a_worker_that_is_killed_leaves_nothing_that_looks_whole() {
    for (target, name) in TARGETS {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join(name);
        for number in [1, 2] {
            let plan = planned(model(1.0), target, &options(2));
            plan.write_part(part(number, 2), path, &once()).unwrap();
        }
        // Between the part and its receipt.
        let plan = planned(model(1.0), target, &options(2));
        let file = plan.part_file(part(2, 2), path).unwrap();
        let receipt = format!("{}.receipt", file.display());
        fs::remove_file(&receipt).unwrap();
        let faults = faults(path, &once());
        assert_eq!(faults[0].problem, PartProblem::NoReceipt);
        assert!(faults[0].to_string().contains("part 2/2"), "{}", faults[0]);
        // The same bytes: it is taken as it is.
        assert!(!plan.write_part(part(2, 2), path, &once()).unwrap());
        // Between the index and what is left to do.
        let all: Vec<_> = files(folder.path()).into_iter().collect();
        assert_eq!(join(path, &once()).unwrap().parts, 2);
        let joined = files(folder.path());
        for (name, bytes) in all.iter().filter(|(name, _)| name.ends_with(".receipt")) {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        assert!(join(path, &once()).unwrap().before);
        assert!(files(folder.path()) == joined);
        // Nothing is left to do.
        assert!(join(path, &once()).unwrap().before);
        // A worker that comes late, with and without being asked to replace.
        for number in [1, 2] {
            assert!(!plan.write_part(part(number, 2), path, &once()).unwrap());
        }
        assert!(files(folder.path()) == joined);
        assert!(!plan.write_part(part(1, 2), path, &force()).unwrap());
        assert!(join(path, &once()).unwrap().before);
        assert!(files(folder.path()) == joined);
    }
}

#[test]
fn other_files_and_sets_are_replaced_on_request_alone() {
    for (target, name) in TARGETS {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join(name);
        by_parts(&|| model(1.0), target, &options(4), path);
        let before = files(folder.path());
        let refused = |of: u32| {
            let plan = planned(model(2.0), target, &options(of));
            let error = plan.write_part(part(1, of), path, &once()).unwrap_err();
            assert!(matches!(error, Error::Usage(_)), "{error}");
            assert!(error.to_string().contains("--force"), "{error}");
        };
        refused(4);
        refused(2);
        assert!(files(folder.path()) == before);

        // Of the same number: the set is gone before one of its parts is.
        let plan = planned(model(2.0), target, &options(4));
        plan.write_part(part(3, 4), path, &force()).unwrap();
        assert!(!path.exists());
        for number in [4, 1, 2] {
            plan.write_part(part(number, 4), path, &once()).unwrap_err();
            plan.write_part(part(number, 4), path, &force()).unwrap();
        }
        join(path, &once()).unwrap();
        let archive = Archive::open(path).unwrap();
        assert!(!archive.verify(&Default::default()).unwrap().has_failed());

        // Of another number: the old set is there until the new one is.
        let plan = planned(model(3.0), target, &options(2));
        for number in [2, 1] {
            plan.write_part(part(number, 2), path, &force()).unwrap();
        }
        assert!(
            !Archive::open(path)
                .unwrap()
                .verify(&Default::default())
                .unwrap()
                .has_failed()
        );
        assert!(matches!(join(path, &once()), Err(Error::Usage(_))));
        join(path, &force()).unwrap();
        let one = tempfile::tempdir().unwrap();
        planned(model(3.0), target, &options(2))
            .write_file(one.path().join(name), &force())
            .unwrap();
        assert!(files(folder.path()) == files(one.path()), "{name}");
    }
}

#[test]
fn an_input_is_never_written_over() {
    for (target, name) in TARGETS {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join(name);
        by_parts(&|| model(1.0), target, &options(3), path);
        let before = files(folder.path());
        let archive = Archive::open(path).unwrap();
        let plan = planned(Model::of(&archive), target, &options(3));
        for options in [once(), force()] {
            let error = plan.write_part(part(2, 3), path, &options).unwrap_err();
            assert!(error.to_string().contains("a file of the input"), "{error}");
        }
        assert!(files(folder.path()) == before);
    }
}

#[test]
fn parts_make_sense_for_sets_of_as_many_tensors_alone() {
    let refused = |target, change: &dyn Fn(&mut Options)| {
        let mut options = options(2);
        change(&mut options);
        let error = plan(model(1.0), target, &options).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{error}");
        error.to_string()
    };
    assert!(refused(Target::Mag, &|_| ()).contains("in one piece"));
    for (target, _) in TARGETS {
        for parts in [0, 15, u32::MAX] {
            let message = refused(target, &|options| options.parts = Some(parts));
            assert!(
                message.contains("14 tensors") && message.contains("--parts"),
                "{message}"
            );
        }
        planned(model(1.0), target, &options(14));
        let plan = planned(model(1.0), target, &options(3));
        for wrong in [part(4, 4), part(1, 2)] {
            let error = plan.write_part(wrong, "x", &once()).unwrap_err();
            assert!(matches!(error, Error::Usage(_)), "{error}");
        }
    }
    refused(Target::AeroSet, &|options| {
        options.max_part_shards = Some(1)
    });
    refused(Target::SafetensorsSet, &|options| {
        options.max_shard_bytes = Some(1)
    });
}
