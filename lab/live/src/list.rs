// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists with commas, as people type them.

/// The parts of a list, without the spaces around them.
///
/// # Errors
/// One of them is empty: where. `what` is a word for a part.
pub fn parts<'a>(text: &'a str, what: &str) -> Result<Vec<&'a str>, String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let last = parts.len() - 1;
    let place = match parts.iter().position(|part| part.is_empty()) {
        None => return Ok(parts),
        Some(_) if last == 0 => return Err(format!("it is empty: write a {what}")),
        Some(0) => "before the first comma",
        Some(n) if n == last => "after the last comma",
        Some(_) => "between two commas",
    };
    Err(format!(
        "nothing stands {place}: write a {what} there, or leave the comma out"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_part_is_named() {
        assert_eq!(parts("a, b", "scheme"), Ok(vec!["a", "b"]));
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
