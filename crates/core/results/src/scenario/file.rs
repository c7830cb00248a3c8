// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The TOML form of a scenario. Its keys are the fields of the options.
use super::options::{Fields, ScenarioOptions, Source};
use alcc_units::nearest;
use toml::de::DeTable;

/// "No such key", the nearest one and all of them.
pub(super) fn no_key(found: &str, known: &[String]) -> String {
    let near = nearest(found, known.iter().map(String::as_str));
    let near = near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
    format!("no key '{found}'{near}: there are {}", known.join(", "))
}

/// Gives every key of `table` to its field.
pub(super) fn fill<F: Fields>(
    fields: &mut F,
    table: &DeTable<'_>,
    source: &Source<'_>,
) -> Result<(), String> {
    let mut entries: Vec<_> = table.iter().collect();
    // In the order of the file: its first mistake is the one that is named.
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        let name = key.get_ref();
        let Some(field) = fields.field(name) else {
            let place = source.place(key.span().start);
            return Err(format!("{place}: {}", no_key(name, &F::keys())));
        };
        field.read(name, value, source)?;
    }
    Ok(())
}

impl ScenarioOptions {
    /// Reads TOML. `name` is what errors call it.
    ///
    /// # Errors
    /// One line: the file, the line in it, what was found and what was expected.
    pub fn from_toml(text: &str, name: &str) -> Result<Self, String> {
        let source = Source { name, text };
        let table = DeTable::parse(text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start);
            let why: Vec<&str> = e.message().lines().collect();
            format!("{}: {}", source.place(at), why.join("; "))
        })?;
        Self::from_table(table.get_ref(), text, name)
    }

    /// Reads a table of a larger document. `text` is the whole document and `name` what errors call
    /// it.
    ///
    /// # Errors
    /// As [`Self::from_toml`].
    pub fn from_table(table: &DeTable<'_>, text: &str, name: &str) -> Result<Self, String> {
        let mut options = Self::default();
        fill(&mut options, table, &Source { name, text })?;
        Ok(options)
    }
}
