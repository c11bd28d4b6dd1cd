test_data::saving_tests!(
    mag_format,
    ending: "mag",
    format: "mag",
    broken: b"MAG?",
    rule: "mag.header.magic",
    shrunk: 200
);
