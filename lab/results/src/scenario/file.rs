// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The TOML form of a scenario. Its keys are the fields of the options.
use super::options::{Fields, ScenarioOptions, Source, Study};
use alcc_units::{nearest, one_line};
use toml::de::DeTable;

/// The error for an unknown key, with the nearest key and all keys.
pub(super) fn unknown_key(found: &str, known: &[String]) -> String {
    let near = nearest(found, known.iter().map(String::as_str));
    let near = near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
    format!("no key '{found}'{near}: there are {}", known.join(", "))
}

/// Reads every key of `table` into its field.
pub(super) fn fill<F: Fields>(
    fields: &mut F,
    table: &DeTable<'_>,
    source: &Source<'_>,
) -> Result<(), String> {
    let mut entries: Vec<_> = table.iter().collect();
    // In the order of the file, so that its first mistake is reported.
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        let name = key.get_ref();
        let Some(field) = fields.field(name) else {
            let location = source.location(key.span().start);
            return Err(format!("{location}: {}", unknown_key(name, &F::keys())));
        };
        field.read(name, value, source)?;
    }
    Ok(())
}

/// Reads the TOML of a file called `name`.
fn from_toml<F: Fields + Default>(text: &str, name: &str) -> Result<F, String> {
    let source = Source { name, text };
    let table = DeTable::parse(text).map_err(|e| {
        let at = e.span().map_or(0, |span| span.start);
        let why: Vec<&str> = e.message().lines().collect();
        format!("{}: {}", source.location(at), why.join("; "))
    })?;
    from_table(table.get_ref(), source)
}

fn from_table<F: Fields + Default>(table: &DeTable<'_>, source: Source<'_>) -> Result<F, String> {
    let mut fields = F::default();
    // Keys and values of a file may have several lines.
    fill(&mut fields, table, &source).map_err(|why| one_line(&why))?;
    Ok(fields)
}

impl Study {
    /// Reads TOML. Errors call the file `name`.
    ///
    /// # Errors
    /// One line: the file, the line in it, what was found and what was expected.
    pub fn from_toml(text: &str, name: &str) -> Result<Self, String> {
        from_toml(text, name)
    }

    /// Writes it as TOML.
    pub fn to_toml(mut self) -> String {
        let mut text = String::new();
        for key in Self::keys() {
            let mut values = Vec::new();
            if let Some(field) = self.field(&key) {
                field.for_each(&mut |value| values.push(value.text.clone()));
            }
            // A text in JSON is one in TOML, and a list of texts, too.
            let written = match &values[..] {
                [] => continue,
                [one] => serde_json::json!(one),
                all => serde_json::json!(all),
            };
            text += &format!("{key} = {written}\n");
        }
        text
    }
}

impl ScenarioOptions {
    /// Reads TOML. Errors call the file `name`.
    ///
    /// # Errors
    /// One line: the file, the line in it, what was found and what was expected.
    pub fn from_toml(text: &str, name: &str) -> Result<Self, String> {
        from_toml(text, name)
    }

    /// Reads a table of a larger document. `text` is the whole document; errors call it `name`.
    ///
    /// # Errors
    /// As [`Self::from_toml`].
    pub fn from_table(table: &DeTable<'_>, text: &str, name: &str) -> Result<Self, String> {
        from_table(table, Source { name, text })
    }
}
