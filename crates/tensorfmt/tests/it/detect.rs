use tensorfmt::Format;

/// splitmix64: the same bytes on every run.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[test]
fn random_bytes_are_no_format() {
    let mut state = 7;
    for _ in 0..100_000 {
        let head: Vec<u8> = (0..8)
            .flat_map(|_| random(&mut state).to_le_bytes())
            .collect();
        assert_eq!(Format::detect(&head, 64, None), None, "{head:02x?}");
    }
}

#[test]
fn hand_assembled_files_are_of_their_own_format_or_none() {
    for format in test_data::FORMATS {
        let mut found = 0;
        for case in (format.cases)() {
            let detected = Format::detect(&case.bytes, case.bytes.len() as u64, None);
            let own = detected.is_some_and(|detected| detected.name() == format.name);
            found += usize::from(own);
            if case.expect == test_data::Expect::Valid {
                assert!(own, "{} {}: {detected:?}", format.name, case.name);
            }
        }
        assert!(found > 20, "{}", format.name);
    }
}
