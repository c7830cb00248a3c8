// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists the experiments of the folder `experiments`, here a link that the package follows, to
//! build them into the program.
#[path = "src/by_number.rs"]
mod by_number;

use by_number::by_number;
use std::fmt::Write as _;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = crates.join("experiments").canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut found: Vec<_> = std::fs::read_dir(&folder)?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.join("experiment.toml").is_file())
        .collect();
    found.sort_by_cached_key(|path| by_number(&path.to_string_lossy()));
    let mut list = "&[\n".to_owned();
    for path in found {
        println!("cargo::rerun-if-changed={}", path.display());
        let id = path.file_name().unwrap_or_default().to_string_lossy();
        let text = |name| {
            let file = path.join(name);
            (file.is_file()).then(|| format!("include_str!({:?})", file.display().to_string()))
        };
        let toml = text("experiment.toml").unwrap_or_default();
        let emulated = text("emulated.toml");
        let emulated = emulated.map_or_else(|| "None".to_owned(), |text| format!("Some({text})"));
        let readme = text("README.md").unwrap_or_else(|| "\"\"".to_owned());
        let _ = writeln!(list, "(\"{id}\", {toml}, {emulated}, {readme}),");
    }
    list.push(']');
    let out = std::env::var_os("OUT_DIR").unwrap_or_default();
    std::fs::write(Path::new(&out).join("list.rs"), list)
}
