// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands that the pages show.

/// A command of a ```console block: what stands after `$ `, with continued lines joined.
#[derive(Clone, Debug, PartialEq)]
#[allow(dead_code, reason = "not every test asks for the place")]
pub(crate) struct Shown {
    pub(crate) line: usize,
    /// Number of headings above it.
    pub(crate) section: usize,
    pub(crate) text: String,
}

/// All commands of a page, in order.
pub(crate) fn commands(page: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    let (mut section, mut code, mut console, mut open) = (0, false, false, false);
    for (text, line) in page.lines().zip(1..) {
        if text.trim_start().starts_with("```") {
            code = !code;
            console = code && text.trim() == "```console";
            continue;
        }
        if !code && text.starts_with('#') {
            section += 1;
        }
        let part = match text.strip_prefix("$ ") {
            _ if !console => continue,
            _ if open => text.trim(),
            Some(command) => command,
            None => continue,
        };
        let (part, more) = match part.strip_suffix('\\') {
            Some(part) => (part.trim_end(), true),
            None => (part, false),
        };
        match found.last_mut().filter(|_| open) {
            Some(last) => last.text = format!("{} {part}", last.text),
            None => found.push(Shown {
                line,
                section,
                text: part.to_owned(),
            }),
        }
        open = more;
    }
    found
}
