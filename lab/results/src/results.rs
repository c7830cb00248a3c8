// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of one command, as JSON and for reports.
use crate::{Row, Series, Summary};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Everything one command measured: the `--json` object and the report's input.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// Metadata: place, time and command of the measurement.
    pub about: About,
    /// One row per measured flow.
    pub flows: Vec<Row>,
    /// Values of several flows together.
    pub summary: Summary,
    /// Time series and distribution of each flow, in the order of `flows`.
    pub series: Vec<Series>,
    /// Notes for the reader, for example what was skipped.
    pub notes: Vec<String>,
}

impl Results {
    /// Reads a `results.json`.
    ///
    /// # Errors
    /// If it has another form, as that of another version may have: what it is, in one line.
    pub fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|why| {
            let written = serde_json::from_str::<Value>(text).unwrap_or_default();
            match written["about"]["program"].as_str() {
                Some(program) if why.is_data() => format!(
                    "it has another form than this version reads: '{program}' wrote it; run its command again"
                ),
                _ => format!("it is not a whole result of alcc-lab: {why}"),
            }
        })
    }

    /// Name of a scheme in tables and legends, see [`Row::label`].
    pub fn label(&self, scheme: &str) -> String {
        let row = self.flows.iter().find(|row| row.scheme == scheme);
        row.map_or_else(|| scheme.to_owned(), Row::label)
    }
}

/// Metadata of a result: place, time and command.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct About {
    /// `alcc` and its version.
    pub program: String,
    /// The program's build ID.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build: String,
    /// The command line.
    pub command: String,
    /// `emulated`, `simulated` or both with a `+`.
    #[serde(default)]
    pub mode: String,
    /// Start, UTC, RFC 3339; none in the simulator, whose results do not depend on it.
    #[serde(default, with = "known")]
    pub date: String,
    /// The kernel's release; none in the simulator.
    #[serde(default, with = "known")]
    pub kernel: String,
    /// Number of processors; none in the simulator.
    #[serde(default, with = "known")]
    pub cpus: usize,
    /// The path in one line.
    pub link: String,
    /// Seed of everything random on the links.
    pub seed: u64,
    /// Input files: scenario, traces, tables and plug-ins, with their SHA-256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<InputFile>,
}

/// A file that a result depends on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct InputFile {
    /// Path, as it was opened.
    pub path: String,
    /// SHA-256 of its content, in hexadecimal; empty if it could not be read again.
    pub sha256: String,
}

impl About {
    /// The metadata of the CSV file `name`, whose own form has no place for them: a file
    /// `NAME-metadata.json` beside it (W3C, Metadata Vocabulary for Tabular Data, section 5.1).
    pub fn of_csv(&self, name: &str) -> Value {
        json!({
            "@context": "http://www.w3.org/ns/csvw",
            "url": in_url(name),
            "notes": [{"about": self}],
        })
    }
}

/// Serializes unknown values as null.
mod known {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T, S>(value: &T, to: S) -> Result<S::Ok, S::Error>
    where
        T: Serialize + Default + PartialEq,
        S: Serializer,
    {
        let known = (*value != T::default()).then_some(value);
        known.serialize(to)
    }

    pub(super) fn deserialize<'d, T, D>(from: D) -> Result<T, D::Error>
    where
        T: Deserialize<'d> + Default,
        D: Deserializer<'d>,
    {
        Ok(Option::deserialize(from)?.unwrap_or_default())
    }
}

/// A file's name as a relative URL (RFC 3986): all but unreserved characters are escaped.
fn in_url(name: &str) -> String {
    let mut url = String::new();
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                url.push(char::from(byte));
            }
            _ => {
                let _ = write!(url, "%{byte:02X}");
            }
        }
    }
    url
}

/// The name of the file with the metadata of a CSV file.
pub fn metadata_of_csv(name: &str) -> String {
    format!("{name}-metadata.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_another_form_name_their_program() {
        let results = Results {
            about: About {
                program: "alcc-lab 0.0.9".to_owned(),
                ..About::default()
            },
            ..Results::default()
        };
        let text = serde_json::to_string(&results).unwrap();
        assert_eq!(Results::read(&text).unwrap(), results);
        let old = text.replace("\"flows\"", "\"rows\"");
        let why = Results::read(&old).unwrap_err();
        assert!(why.contains("'alcc-lab 0.0.9' wrote it"), "{why}");
        for other in ["", "[]", "{}", &text[1..], "{\"about\":{}}"] {
            let why = Results::read(other).unwrap_err();
            assert!(
                why.starts_with("it is not a whole result of alcc-lab: "),
                "{why}"
            );
        }
    }

    #[test]
    fn what_a_simulation_does_not_know_is_null() {
        let about = serde_json::to_value(About::default()).unwrap();
        for name in ["date", "kernel", "cpus"] {
            assert_eq!(about.get(name), Some(&Value::Null), "{name}");
        }
        assert_eq!(
            serde_json::from_value::<About>(about).unwrap(),
            About::default()
        );
    }

    #[test]
    fn the_address_of_a_table_is_escaped() {
        let url = |name| About::default().of_csv(name)["url"].clone();
        assert_eq!(url("flows-1_2.csv"), "flows-1_2.csv");
        assert_eq!(url("5 % ä#?.csv"), "5%20%25%20%C3%A4%23%3F.csv");
    }
}
