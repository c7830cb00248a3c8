// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists with commas, as people type them.

/// The parts of a list, without the spaces around them. A comma ends a part unless what follows it
/// is `option=value`: a part that has an `=` before any `:` or `/` continues the options before it.
///
/// # Errors
/// One of them is empty: where. `what` is a word for a part.
pub fn parts(text: &str, what: &str) -> Result<Vec<String>, String> {
    let typed: Vec<&str> = text.split(',').map(str::trim).collect();
    let last = typed.len() - 1;
    let place = match typed.iter().position(|part| part.is_empty()) {
        None => "",
        Some(_) if last == 0 => return Err(format!("it is empty: write a {what}")),
        Some(0) => "before the first comma",
        Some(n) if n == last => "after the last comma",
        Some(_) => "between two commas",
    };
    if !place.is_empty() {
        return Err(format!(
            "nothing {place}: write a {what} there, or remove the comma"
        ));
    }
    let mut parts: Vec<String> = Vec::new();
    for part in typed {
        let key = part.split_once('=').map(|(key, _)| key);
        match parts.last_mut() {
            Some(last) if key.is_some_and(|key| !key.contains([':', '/'])) => {
                *last += &format!(",{part}");
            }
            _ => parts.push(part.to_owned()),
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_part_is_named() {
        let read = parts("a, b:x=1,y=2/z=3,c", "scheme").unwrap();
        assert_eq!(read, ["a", "b:x=1,y=2/z=3", "c"]);
        for (text, place) in [
            ("", "it is empty"),
            (",a", "before the first comma"),
            ("a,", "after the last comma"),
            ("a,,b", "between two commas"),
        ] {
            let why = parts(text, "scheme").unwrap_err();
            assert!(why.contains(place) && why.contains("a scheme"), "{why}");
        }
    }
}
