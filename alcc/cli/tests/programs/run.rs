// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run of a program, and what of it can be compared with another.
use crate::place::Place;
use crate::recipes::Recipe;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

/// The outcome of a run of a program.
#[derive(Debug)]
pub(crate) struct Run {
    /// The client's output, hashes included.
    pub(crate) fetched: String,
    /// The same with its errors and exit status, without numbers and hashes.
    pub(crate) client: String,
    /// The time of the transfer.
    pub(crate) took: Duration,
    /// The server's messages, without numbers, sorted.
    pub(crate) said: Vec<String>,
    /// Its exit status as a shell would say it.
    pub(crate) status: i32,
    /// The report of `alcc run`; null without.
    pub(crate) report: serde_json::Value,
    /// The messages of `alcc run`.
    #[expect(dead_code, reason = "shown when a check fails")]
    ours: Vec<String>,
}

impl Run {
    /// Starts the program, fetches the file `name` from it, ends it.
    pub(crate) fn of(place: &Place, recipe: &Recipe, cc: Option<&str>, name: &str) -> Self {
        // The gate, regardless of controls that are loaded into the kernel.
        let options = cc.map(|cc| ["--cc", cc, "--enforce", "gate+pacing"]);
        Self::with(
            place,
            recipe,
            options.as_ref().map(<[_; 4]>::as_slice),
            name,
        )
    }

    /// As [`Run::of`], under `alcc run` with these options.
    pub(crate) fn with(
        place: &Place,
        recipe: &Recipe,
        options: Option<&[&str]>,
        name: &str,
    ) -> Self {
        let _helpers = place.help(recipe);
        let mut began = Instant::now();
        let mut server = place.start(recipe, options, name);
        let (took, status, fetched, errors);
        match &recipe.fetch {
            Some(fetch) => {
                began = Instant::now();
                (fetched, errors) = place.shell(fetch, name);
                took = began.elapsed();
                place.settle();
                status = server.end();
            }
            // The program itself transfers, and ends when it has.
            None => {
                status = server.wait();
                took = began.elapsed();
                (fetched, errors) = place.shell("sha256sum got; rm got", name);
            }
        }
        let said = fs::read_to_string(place.path("said")).unwrap_or_default();
        let (ours, theirs): (Vec<&str>, Vec<&str>) =
            said.lines().partition(|line| line.starts_with("alcc: "));
        let anyhow = |text: &str| without_numbers(&text.replace(name, "FILE"));
        let mut theirs: Vec<String> = theirs.into_iter().map(anyhow).collect();
        theirs.sort();
        Self {
            client: anyhow(&format!("{fetched}\n{errors}")),
            fetched,
            took,
            said: theirs,
            status: status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            report: place.report(),
            ours: ours.into_iter().map(str::to_owned).collect(),
        }
    }
}

/// Times, process numbers, ports and rates differ from run to run; so do hashes, which are compared
/// elsewhere.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    // The unit that suits the number.
    let text = text.replace("KByte", "MByte");
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '.') {
        let (word, end) = match word.char_indices().next_back() {
            Some((at, c)) if !c.is_ascii_alphanumeric() && c != '.' => word.split_at(at),
            _ => (word, ""),
        };
        let hash = word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
        let month = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ];
        let day = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
        if hash {
            out.push_str("HASH");
        } else if word.starts_with(|c: char| c.is_ascii_digit()) {
            out.push('0');
        } else if month.contains(&word) || day.contains(&word) {
            out.push_str("DATE");
        } else {
            out.push_str(word);
        }
        // Columns are filled with blanks to the width of the numbers.
        if !(end == " " && out.ends_with(' ')) {
            out.push_str(end);
        }
    }
    out
}
