// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sanitizing of foreign text before it is written to a terminal.

/// True if a character of a foreign text (a process's name, a peer's message) may be shown as it
/// is. False for control characters, which terminals obey, for line ends, and for invisible
/// characters that change how others are shown (the bidirectional ones of Unicode).
pub fn is_printable(c: char) -> bool {
    let hidden = matches!(
        c,
        '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
    );
    !c.is_control() && !hidden
}

/// A foreign text (a file's name, a value) as one line that cannot control a terminal: characters
/// that are not printable are escaped.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if is_printable(c) {
            line.push(c);
        } else {
            line.extend(c.escape_default());
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::is_printable;

    #[test]
    fn what_terminals_obey_or_hide_is_not_printable() {
        for c in "\n\r\t\x1b\x7f\u{9b}\u{202e}\u{2066}\u{200f}\u{2028}\u{feff}".chars() {
            assert!(!is_printable(c), "{c:?}");
        }
        for c in "a ~\u{e4}\u{4e2d}\u{5d0}\u{1f642}\u{202f}".chars() {
            assert!(is_printable(c), "{c:?}");
        }
    }
}
