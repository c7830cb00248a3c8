// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loading of plug-ins into a registry.
use crate::PluginError;
use crate::abi::{ALCC_PLUGIN_ABI, alcc_algorithm};
use crate::adaptor::PluginController;
use crate::table::{Table, read_all};
use alcc_cc::{Algorithm, Build, Form, Registry};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The environment variable that names plug-ins, separated by `:`.
pub const ENV: &str = "ALCC_PLUGIN";

/// The name of the symbol that a plug-in of this version exports.
fn symbol(abi: u32) -> String {
    format!("alcc_algorithm_v{abi}\0")
}

/// Loads the plug-in `file`, which from then on runs in this process with all its rights. Returns the first of its
/// algorithms.
///
/// # Errors
/// The errors of [`load_all`].
pub fn load(file: &Path) -> Result<Algorithm, PluginError> {
    Ok(load_all(file)?.swap_remove(0))
}

/// Loads the plug-in `file`, which from then on runs in this process with all its rights. Returns all of its
/// algorithms, at least one.
///
/// # Errors
/// [`PluginError`], with the file, its error and the remedy.
pub fn load_all(file: &Path) -> Result<Vec<Algorithm>, PluginError> {
    let file = &found(file)?;
    let algorithm = |table: Table| {
        let table = Arc::new(table);
        Algorithm {
            name: table.name,
            summary: table.summary,
            profiles: Cow::Borrowed(table.profiles),
            options: table.docs,
            build: Build::Loaded {
                file: file.to_string_lossy().into(),
                build: Arc::new(move |options| PluginController::build(&table, options)),
            },
        }
    };
    Ok(open(file)?.into_iter().map(algorithm).collect())
}

/// Makes the path absolute, because the dynamic linker searches the system's folders for a bare name.
fn found(file: &Path) -> Result<PathBuf, PluginError> {
    let path = std::fs::canonicalize(file);
    // The dynamic linker's message is not helpful for a folder, or for a file that cannot be read.
    let readable = path.and_then(|path| File::open(&path)?.read(&mut [0]).map(|_| path));
    readable.map_err(|error| PluginError::Missing {
        file: file.to_owned(),
        why: alcc_units::reason(&error),
    })
}

/// The file that an algorithm was loaded from.
fn source(build: &Build) -> Option<&str> {
    match build {
        Build::Loaded { file, .. } => Some(file),
        Build::Forms { own, .. } => source(own),
        Build::Function(_) => None,
    }
}

/// True if an algorithm, or a form of it, was loaded from `file`.
fn is_from(build: &Build, file: &Path) -> bool {
    let forms = build.forms().iter().map(|form| &form.build);
    forms
        .chain([build])
        .any(|build| source(build) == Some(&file.to_string_lossy()))
}

fn open(file: &Path) -> Result<Vec<Table>, PluginError> {
    // SAFETY: loading runs the constructors of the plug-in, as the user requested.
    let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| {
        let text = std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), ToString::to_string);
        PluginError::Open {
            file: file.to_owned(),
            why: one_line(&text, file),
        }
    })?;
    // SAFETY: the symbol's name implies its type; a symbol that is found is a definition.
    let tables = unsafe {
        let exported = |abi| {
            let found = library.get::<*const alcc_algorithm>(symbol(abi).as_bytes());
            found.ok().map(|symbol| symbol.as_raw_ptr())
        };
        let older = || {
            (1..ALCC_PLUGIN_ABI)
                .rev()
                .find(|abi| exported(*abi).is_some())
        };
        match exported(ALCC_PLUGIN_ABI).filter(|exported| !exported.is_null()) {
            Some(exported) => read_all(exported.cast(), file),
            None => Err(match older() {
                Some(found) => PluginError::Abi {
                    file: file.to_owned(),
                    found,
                    want: ALCC_PLUGIN_ABI,
                },
                None => PluginError::Symbol {
                    file: file.to_owned(),
                },
            }),
        }
    };
    let tables = tables.and_then(|tables| match tables.is_empty() {
        true => Err(PluginError::Table {
            file: file.to_owned(),
            what: "its list of algorithms is empty".to_owned(),
            remedy: "return a table for number 0",
        }),
        false => Ok(tables),
    });
    if tables.is_ok() {
        // The library is never unloaded, because its functions are called until the process ends.
        std::mem::forget(library);
    }
    tables
}

/// The message of the dynamic linker, without the file's name at its beginning.
fn one_line(text: &str, file: &Path) -> String {
    let text = text.replace('\n', " ");
    let name = format!("{}: ", file.display());
    text.strip_prefix(&name).unwrap_or(&text).to_owned()
}

/// Maximum size of a file that an algorithm's option may name, MiB.
const MAX_FILE: u64 = 64;

/// The text of a file that an algorithm's option names. All such files are read here.
///
/// # Errors
/// One line with the reason why it cannot be read.
pub fn read_text(path: &str) -> Result<String, String> {
    File::open(path)
        .and_then(|file| alcc_units::read_bounded(file, MAX_FILE))
        .map_err(|error| format!("read the file: {}", alcc_units::reason(&error)))
}

/// `registry` with the plug-ins in `files`. Options may name files from now on. If a plug-in's algorithm exists
/// already, its profiles are added to that one.
///
/// # Errors
/// The errors of [`load_all`]. Also an algorithm of that name from elsewhere, if the plug-in has no profiles for it, or
/// one that exists already.
pub fn with_files<P: AsRef<Path>>(
    mut registry: Registry,
    files: impl IntoIterator<Item = P>,
) -> Result<Registry, PluginError> {
    for file in files {
        let file = found(file.as_ref())?;
        if registry.iter().any(|a| is_from(&a.build, &file)) {
            continue;
        }
        for algorithm in load_all(&file)? {
            registry = with(registry, algorithm, &file)?;
        }
    }
    Ok(registry.reading(read_text))
}

/// `registry` with an algorithm of the plug-in `file`, or with its profiles.
fn with(registry: Registry, algorithm: Algorithm, file: &Path) -> Result<Registry, PluginError> {
    let Some(before) = registry.iter().find(|a| a.name == algorithm.name) else {
        return Ok(registry.with_local(algorithm));
    };
    let owner = source(&before.build);
    let owner = owner.map_or_else(|| "built in".to_owned(), |other| format!("of {other}"));
    let (file, name) = (file.to_owned(), algorithm.name.to_owned());
    if algorithm.profiles.is_empty() {
        return Err(PluginError::Taken { file, name, owner });
    }
    let mut profiles = algorithm.profiles.iter();
    if let Some(profile) = profiles.find(|profile| before.profiles.contains(profile)) {
        return Err(PluginError::TakenProfile {
            file,
            name,
            profile: (*profile).to_owned(),
            owner,
        });
    }
    let form = |profile: &&'static str| Form {
        profile,
        options: algorithm.options,
        build: algorithm.build.clone(),
    };
    let forms = algorithm.profiles.iter().map(form);
    Ok(forms.fold(registry, |registry, form| {
        registry.with_local_form(algorithm.name, form)
    }))
}

/// `registry` with the plug-ins that the variable [`ENV`] names; `value` is its value.
///
/// # Errors
/// The errors of [`with_files`].
pub fn with_env(registry: Registry, value: Option<&OsStr>) -> Result<Registry, PluginError> {
    let files = value
        .map(OsStr::as_bytes)
        .unwrap_or_default()
        .split(|byte| *byte == b':')
        .filter(|part| !part.is_empty());
    with_files(registry, files.map(OsStr::from_bytes))
}

/// The value of [`ENV`] for these files: absolute paths, because a program may change its folder. `None` if there are
/// none.
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
