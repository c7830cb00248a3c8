// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Access to scenario files and to the files that they name, for the program and for bindings.
#![forbid(unsafe_code)]

use alcc_results::scenario::{Files, ScenarioOptions, Study, reason};
use alcc_units::read_bounded;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Reads files by name; a file in the folder of the scenario has precedence over one in the working directory.
#[derive(Clone, Debug, Default)]
pub struct ScenarioFolder {
    folders: Vec<PathBuf>,
}

impl ScenarioFolder {
    /// Access to this machine's files; those in `folders` have precedence, in this order.
    pub fn in_folders(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        Self {
            folders: folders.into_iter().collect(),
        }
    }
}

impl Files for ScenarioFolder {
    fn find(&self, name: &str) -> Option<PathBuf> {
        let beside = self.folders.iter().map(|folder| folder.join(name));
        let mut places = beside.chain([name.into()]);
        places.find(|path: &PathBuf| path.is_file())
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(path)?))
    }
}

/// Maximum size of a scenario file, MiB.
const MAX_SCENARIO: u64 = 16;

/// Reads a scenario file.
///
/// # Errors
/// One line: the file, the line in it, what was found and what was expected.
pub fn read(path: &Path) -> Result<(ScenarioOptions, ScenarioFolder), String> {
    let example = "what is to be simulated, such as flow = \"cubic\"";
    let options = read_toml(path, "scenario", example, ScenarioOptions::from_toml)?;
    let folder = path.parent().map(Path::to_owned);
    Ok((options, ScenarioFolder::in_folders(folder)))
}

/// Reads the file of a comparison.
///
/// # Errors
/// The errors of [`read`].
pub fn read_study(path: &Path) -> Result<Study, String> {
    let example = "what is to be compared, such as schemes = [\"cubic\", \"bbr\"]";
    read_toml(path, "study", example, Study::from_toml)
}

fn read_toml<T: Default + PartialEq>(
    path: &Path,
    what: &str,
    example: &str,
    parse: fn(&str, &str) -> Result<T, String>,
) -> Result<T, String> {
    let name = path.display().to_string();
    let failed = |why: String| format!("read the {what} {name}: {why}");
    let text = File::open(path).and_then(|file| read_bounded(file, MAX_SCENARIO));
    let text = text.map_err(|e| failed(reason(&e)))?;
    let options = parse(&text, &name)?;
    if options == T::default() {
        return Err(failed(format!("it has no key: write {example}")));
    }
    Ok(options)
}

/// The build ID of a program or library ([`alcc_units::build_id`]).
pub fn build_id(file: &Path) -> Option<String> {
    let file = File::open(file).ok()?;
    alcc_units::build_id(|into, at| file.read_exact_at(into, at))
}
