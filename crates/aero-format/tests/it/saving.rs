test_data::saving_tests!(
    aero_format,
    ending: "aero",
    format: "AERO",
    broken: [b'X'; 128],
    rule: "aero.header.magic",
    shrunk: 2000
);
