// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of a comparison's report.
use super::table;
use crate::result_cache::write_whole;
use crate::{LabError, pairs, picture, report};
use alcc_results::{About, Results, csv as flows_csv, metadata_of_csv};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Native forms and those beside them, for a page of documentation.
pub const NATIVE: &str = "native.md";

/// The tables of a report.
const TABLES: [&str; 2] = ["flows.csv", "board.csv"];

/// True if `file` is one that [`write()`] or the cache of finished runs may write in `folder`, which must exist.
pub fn is_written(file: &Path, folder: &Path) -> bool {
    // What is not there yet has its place in the folder that its name is in.
    let place = file.canonicalize().ok().or_else(|| {
        let parent = file.parent().filter(|path| !path.as_os_str().is_empty());
        let parent = parent.unwrap_or_else(|| Path::new("."));
        Some(parent.canonicalize().ok()?.join(file.file_name()?))
    });
    let (Some(place), Ok(folder)) = (place, folder.canonicalize()) else {
        return false;
    };
    let tables = TABLES.map(|csv| [csv.to_owned(), metadata_of_csv(csv)]);
    let others = ["report.html", "results.json", "board.svg", NATIVE].map(str::to_owned);
    let mut names = tables.into_iter().flatten().chain(others);
    place.starts_with(folder.join("runs")) || names.any(|name| place == folder.join(name))
}

/// Writes into `folder`, which is made if missing: `report.html`, `results.json` (all of it),
/// `flows.csv` (every run), `board.csv` (the table) and `board.svg` (the picture). If native forms
/// were measured beside others, it also writes [`NATIVE`]. Returns the report's path.
///
/// # Errors
/// [`LabError::Os`] with the file that could not be written.
pub fn write(results: &Results, folder: &Path) -> Result<PathBuf, LabError> {
    alcc_sys::create_folders(folder).map_err(LabError::os(format!(
        "make the folder {}",
        folder.display()
    )))?;
    let page = folder.join("report.html");
    let drawn = picture::svg(results).map_err(|why| {
        let attempt = format!("make {}", folder.join("board.svg").display());
        LabError::os(attempt)(std::io::Error::other(why))
    })?;
    let json = serde_json::to_string(results).unwrap_or_default();
    for (file, content) in [
        (page.clone(), report::html(results)),
        (folder.join("results.json"), json + "\n"),
        (folder.join("flows.csv"), flows_csv(&results.flows)),
        (folder.join("board.csv"), table::csv(results)),
        (folder.join("board.svg"), drawn),
    ] {
        write_file(&file, &content)?;
    }
    for csv in TABLES {
        write_about(&folder.join(csv), &results.about)?;
    }
    if !results.summary.pairs.is_empty() {
        write_file(&folder.join(NATIVE), &pairs::markdown(results))?;
    }
    Ok(page)
}

/// Writes what the CSV file `csv` came about by into the file beside it that W3C's metadata of
/// tables are in. A pipe or a device has none beside it.
///
/// # Errors
/// [`LabError::Os`] with its name.
pub fn write_about(csv: &Path, about: &About) -> Result<(), LabError> {
    let name = csv.file_name().map(|name| name.to_string_lossy());
    match name {
        Some(name) if csv.is_file() => {
            let beside = csv.with_file_name(metadata_of_csv(&name));
            write_file(&beside, &format!("{}\n", about.of_csv(&name)))
        }
        _ => Ok(()),
    }
}

/// Writes one file, all of it or nothing.
///
/// # Errors
/// [`LabError::Os`] with its name.
pub fn write_file(file: &Path, content: &str) -> Result<(), LabError> {
    let written = match file.metadata() {
        // A pipe or a device cannot be replaced.
        Ok(found) if !found.is_file() => {
            alcc_sys::create(file).and_then(|mut to| to.write_all(content.as_bytes()))
        }
        _ => write_whole(file, content.as_bytes()),
    };
    written.map_err(LabError::os(format!("write {}", file.display())))
}
