// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a file to the registry.
use crate::PluginError;
use crate::abi::alcc_algorithm;
use crate::adaptor::Plugged;
use crate::table::Table;
use alcc_cc::{Algorithm, Controller, Registry};
use alcc_units::{Options, SpecError};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

/// The environment variable that names plug-ins, separated by `:`.
pub const ENV: &str = "ALCC_PLUGIN";

const SYMBOL: &[u8] = b"alcc_algorithm_v1\0";

struct Loaded {
    file: PathBuf,
    table: Table,
    next: Option<&'static Self>,
}

/// Everything this process has loaded. The registry's `build` is a plain function: it finds its table here by name. A list
/// that only grows, read without a lock: a child of `fork` might find a lock held for ever.
static LOADED: AtomicPtr<Loaded> = AtomicPtr::new(null_mut());

/// One load at a time.
static LOADING: Mutex<()> = Mutex::new(());

fn loaded() -> impl Iterator<Item = &'static Loaded> {
    // SAFETY: null or leaked by `load`.
    let first = unsafe { LOADED.load(Ordering::Acquire).as_ref() };
    std::iter::successors(first, |entry| entry.next)
}

/// Loads the plug-in `file`, which from then on runs in this process with all its rights. Loading a file again gives the
/// same algorithm.
///
/// # Errors
/// [`PluginError`] names the file, what is wrong with it and what would be right.
pub fn load(file: &Path) -> Result<Algorithm, PluginError> {
    // An absolute path: the dynamic linker looks a bare name up in the system's folders.
    let file = &std::fs::canonicalize(file).map_err(|error| PluginError::Missing {
        file: file.to_owned(),
        why: error.to_string(),
    })?;
    let _alone = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = loaded().find(|l| l.file == *file) {
        return Ok(algorithm(&known.table));
    }
    let table = open(file)?;
    if let Some(other) = loaded().find(|l| l.table.name == table.name) {
        return Err(PluginError::Taken {
            file: file.to_owned(),
            name: table.name.to_owned(),
            owner: format!("of {}", other.file.display()),
        });
    }
    let entry = Box::leak(Box::new(Loaded {
        file: file.clone(),
        table,
        next: loaded().next(),
    }));
    LOADED.store(entry, Ordering::Release);
    Ok(algorithm(&entry.table))
}

fn open(file: &Path) -> Result<Table, PluginError> {
    // SAFETY: loading runs the constructors of the plug-in: that is what the user asks for.
    let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| {
        let text = std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), ToString::to_string);
        PluginError::Open {
            file: file.to_owned(),
            why: one_line(&text, file),
        }
    })?;
    // SAFETY: the symbol's name stands for its type; a symbol that is found is a definition.
    let table = unsafe {
        match library
            .get::<*const alcc_algorithm>(SYMBOL)
            .map(|s| s.as_raw_ptr())
        {
            Ok(exported) if !exported.is_null() => Table::read(exported.cast(), file),
            _ => Err(PluginError::Symbol {
                file: file.to_owned(),
            }),
        }
    };
    if table.is_ok() {
        // Never unloaded: its functions are called until the process ends.
        std::mem::forget(library);
    }
    table
}

/// What the dynamic linker says, without the file's name, which stands before it anyway.
fn one_line(text: &str, file: &Path) -> String {
    let text = text.replace('\n', " ");
    let name = format!("{}: ", file.display());
    text.strip_prefix(&name).unwrap_or(&text).to_owned()
}

fn algorithm(table: &'static Table) -> Algorithm {
    Algorithm {
        name: table.name,
        summary: table.summary,
        profiles: &[],
        options: table.docs,
        build,
    }
}

fn build(options: &Options<'_>) -> Result<Box<dyn Controller>, SpecError> {
    let name = options.name();
    match loaded().find(|l| l.table.name == name) {
        Some(entry) => Ok(Box::new(Plugged::new(&entry.table, options)?)),
        None => Err(SpecError::unknown("plug-in", name, std::iter::empty())),
    }
}

/// Longest file that an algorithm's option may name.
const LONGEST: u64 = 64 << 20;

/// The text of a file that an algorithm's option names: the one place where such files are read.
fn read_text(path: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut file = std::fs::File::open(path)
        .map_err(|error| error.to_string())?
        .take(LONGEST + 1);
    file.read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    if text.len() as u64 > LONGEST {
        return Err(format!("longer than {LONGEST} bytes"));
    }
    Ok(text)
}

/// `registry` and the plug-ins in `files`; files that options name can be read from now on.
///
/// # Errors
/// As [`load`]; also if the registry has an algorithm of that name that is not the same plug-in.
pub fn with_files<P: AsRef<Path>>(
    mut registry: Registry,
    files: impl IntoIterator<Item = P>,
) -> Result<Registry, PluginError> {
    for file in files {
        let algorithm = load(file.as_ref())?;
        let before = registry.iter().find(|a| a.name == algorithm.name);
        if before.is_some_and(|a| !std::ptr::eq(a.summary, algorithm.summary)) {
            return Err(PluginError::Taken {
                file: file.as_ref().to_owned(),
                name: algorithm.name.to_owned(),
                owner: "built in".to_owned(),
            });
        }
        registry = registry.with_local(algorithm);
    }
    Ok(registry.reading(read_text))
}

/// `registry` and the plug-ins that the variable [`ENV`] names, given its value.
///
/// # Errors
/// As [`with_files`].
pub fn with_env(registry: Registry, value: Option<&OsStr>) -> Result<Registry, PluginError> {
    let files = value
        .map(OsStr::as_bytes)
        .unwrap_or_default()
        .split(|byte| *byte == b':')
        .filter(|part| !part.is_empty());
    with_files(registry, files.map(OsStr::from_bytes))
}

/// The value of [`ENV`] for these files: absolute paths, since a program changes its folder. `None` if there are none.
pub fn env_value<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> Option<OsString> {
    let paths = files
        .into_iter()
        .map(|file| std::path::absolute(&file).unwrap_or_else(|_| file.as_ref().to_owned()));
    let list = paths.fold(OsString::new(), |mut list, path| {
        if !list.is_empty() {
            list.push(":");
        }
        list.push(path);
        list
    });
    (!list.is_empty()).then_some(list)
}
