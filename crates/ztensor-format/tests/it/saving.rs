test_data::saving_tests!(
    ztensor_format,
    ending: "zt",
    format: "ztensor",
    broken: b"ZTEM0001 and more",
    rule: "ztensor.magic",
    shrunk: 200
);
