test_data::saving_tests!(
    burnpack_format,
    ending: "bpk",
    format: "burnpack",
    broken: b"NRUC",
    rule: "burnpack.header.magic",
    shrunk: 300
);
