//! Sizes in bytes as people write them: 5GB, 512MiB, 1_000_000.

/// Reads a size: kB, MB, GB, TB, PB and EB are powers of 1000, KiB to EiB of 1024; underscores part digits,
/// and a fraction is one that comes to whole bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let is_number = |c: char| c.is_ascii_digit() || c == '_' || c == '.';
    let end = text.find(|c| !is_number(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim_start();
    let factor: u64 = match unit {
        "" | "B" => 1,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "PB" => 1_000_000_000_000_000,
        "EB" => 1_000_000_000_000_000_000,
        "KiB" | "kiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "PiB" => 1 << 50,
        "EiB" => 1 << 60,
        _ => {
            return Err(format!(
                "{unit:?} is no unit of bytes; there are kB, MB, GB and so on for powers of 1000, and \
                KiB, MiB, GiB and so on for powers of 1024"
            ));
        }
    };
    let wrong = || format!("{number:?} is no number such as 512, 1_000_000 or 1.5");
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_parted = |digits: &str| {
        let ends = digits.starts_with('_') || digits.ends_with('_') || digits.contains("__");
        !ends && digits.chars().all(|c| c.is_ascii_digit() || c == '_')
    };
    if whole.is_empty() || !is_parted(whole) || number.ends_with('.') || !is_parted(fraction) {
        return Err(wrong());
    }
    let digits = |text: &str| text.replace('_', "");
    let fraction = digits(fraction).trim_end_matches('0').to_owned();
    let large = || "it is more than any file has".to_owned();
    let places = u32::try_from(fraction.len()).map_err(|_| wrong())?;
    let all = format!("{}{fraction}", digits(whole));
    let all: u128 = all.parse().map_err(|_| large())?;
    let scaled = all.checked_mul(factor.into()).ok_or_else(large)?;
    let power = 10u128.checked_pow(places).ok_or_else(wrong)?;
    if scaled % power != 0 {
        return Err("it is not a whole number of bytes".into());
    }
    u64::try_from(scaled / power).map_err(|_| large())
}

/// The same of what has to hold something.
pub(crate) fn some_bytes(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        0 => Err("nothing fits into 0 bytes".into()),
        len => Ok(len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, size) in [
            ("0", 0),
            ("512", 512),
            ("512B", 512),
            ("1_000_000", 1_000_000),
            ("5GB", 5_000_000_000),
            ("5 GB", 5_000_000_000),
            ("1kB", 1000),
            ("2KB", 2000),
            ("2MB", 2_000_000),
            ("3TB", 3_000_000_000_000),
            ("512MiB", 512 << 20),
            ("1KiB", 1024),
            ("4GiB", 4 << 30),
            ("1.5GB", 1_500_000_000),
            ("0.5KiB", 512),
            ("1.50kB", 1500),
            ("1_0.2_5MB", 10_250_000),
            ("15EiB", 15 << 60),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_said() {
        for (text, why) in [
            ("", "no number"),
            ("GB", "no number"),
            ("-1", "no unit"),
            ("5gb", "no unit"),
            ("5Gb", "no unit"),
            ("5G", "KiB, MiB"),
            ("5 gigabytes", "no unit"),
            ("1__0", "no number"),
            ("_1", "no number"),
            ("1_", "no number"),
            ("1.", "no number"),
            (".5kB", "no number"),
            ("1.2.3kB", "no number"),
            ("1.5", "whole number"),
            ("1.0001kB", "whole number"),
            ("16EiB", "more than"),
            ("18446744073709551616", "more than"),
            ("99999999999999999999999999999999999999999", "more than"),
            (
                "0.00000000000000000000000000000000000000000001EB",
                "no number",
            ),
        ] {
            let error = bytes(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
