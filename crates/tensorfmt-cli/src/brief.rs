//! What a file says at length, for people: no more of it is made than is shown.

use std::fmt::Write;

use tensorfmt::{Shape, Value, to_json};

/// How many characters of a value are shown.
const SHOWN: usize = 100;
/// How many dims are shown of a shape; those of every real model.
const DIMS: usize = 16;

/// Dims, of which only the first are shown where there are very many.
pub(crate) fn dims(shape: &Shape) -> String {
    let rank = shape.rank();
    if rank <= DIMS {
        return shape.to_string();
    }
    let mut text = String::from("[");
    for dim in shape.dims().iter().take(DIMS) {
        let _ = write!(text, "{dim}, ");
    }
    let _ = write!(text, "… {rank} dims]");
    text
}

/// A value on one line as JSON, or a text as it is, cut where it gets long; to be escaped.
pub(crate) fn value(value: &Value) -> String {
    let text = match value {
        Value::Text(text) => text.clone(),
        value => to_json(&front(value)).to_string(),
    };
    let mut short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// The front of a value: as many items as could be seen, each of which takes two characters at least. One more
/// stays, so that it still shows that there are more.
fn front(value: &Value) -> Value {
    let most = SHOWN / 2 + 1;
    match value {
        Value::List(items) if items.len() > most => {
            Value::List(items.iter().take(most).map(front).collect())
        }
        Value::List(items) => Value::List(items.iter().map(front).collect()),
        Value::Bytes(bytes) => Value::Bytes(bytes.iter().take(SHOWN).copied().collect()),
        // Keys are sorted where they are shown, and so all have to be there; most maps are short.
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_of_very_many_dims_is_cut() {
        let short = Shape::new(&[1, 2, 3]).unwrap();
        assert_eq!(dims(&short), "[1, 2, 3]");
        let all = Shape::new(&[1; DIMS]).unwrap();
        assert_eq!(dims(&all), all.to_string());
        let long = Shape::new(&[1; 1_000_000]).unwrap();
        assert_eq!(
            dims(&long),
            format!("[{}… 1000000 dims]", "1, ".repeat(DIMS))
        );
    }

    #[test]
    fn a_long_list_looks_as_if_all_of_it_had_been_made() {
        for len in [0, 3, 40, 51, 52, 53, 200] {
            let list = Value::List((0..len).map(|at: u64| (at % 7).into()).collect());
            let all = to_json(&list).to_string();
            let cut = match all.len() > SHOWN {
                true => format!("{}…", &all[..SHOWN]),
                false => all,
            };
            assert_eq!(value(&list), cut, "{len}");
        }
    }
}
