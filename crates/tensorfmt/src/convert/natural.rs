use std::cmp::Ordering;

/// The order in which people list names: part by part, numbers by their value.
///
/// ```
/// use tensorfmt::convert::natural;
///
/// let mut names = ["layer.10.w", "layer.2.w"];
/// names.sort_by(|a, b| natural(a, b));
/// assert_eq!(names, ["layer.2.w", "layer.10.w"]);
/// ```
#[must_use]
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let ((p, more), (q, other)) = (split(a), split(b));
        let order = by_value(p, q).then_with(|| p.cmp(q));
        match (order, more, other) {
            (Ordering::Equal, Some(more), Some(other)) => (a, b) = (more, other),
            (Ordering::Equal, more, other) => return more.is_some().cmp(&other.is_some()),
            (order, ..) => return order,
        }
    }
}

/// Text piece by piece, with runs of digits as numbers of any size.
fn by_value(mut a: &str, mut b: &str) -> Ordering {
    loop {
        let (digits_a, digits_b) = (digits(a), digits(b));
        if digits_a > 0 && digits_b > 0 {
            let (x, rest_a) = a.split_at(digits_a);
            let (y, rest_b) = b.split_at(digits_b);
            let (x, y) = (x.trim_start_matches('0'), y.trim_start_matches('0'));
            let order = x.len().cmp(&y.len()).then_with(|| x.cmp(y));
            if order.is_ne() {
                return order;
            }
            (a, b) = (rest_a, rest_b);
            continue;
        }
        let (mut chars_a, mut chars_b) = (a.chars(), b.chars());
        match (chars_a.next(), chars_b.next()) {
            (Some(x), Some(y)) if x == y => (a, b) = (chars_a.as_str(), chars_b.as_str()),
            (x, y) => return x.cmp(&y),
        }
    }
}

/// How many digits text starts with.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// The part before the first dot, and what comes after it.
fn split(name: &str) -> (&str, Option<&str>) {
    match name.split_once('.') {
        Some((part, rest)) => (part, Some(rest)),
        None => (name, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sort_by_value() {
        let sorted = [
            "",
            ".b",
            "a",
            "a.b",
            "a-b",
            "l.02.w",
            "l.2.w",
            "l.10.w",
            "l.x",
            "l9",
            "l10",
            "l99999999999999999999999",
            "z",
        ];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(natural(a, b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }
}
