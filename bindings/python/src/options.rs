// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keyword arguments as the options of a scenario: the same keys as in a TOML file.
use crate::arguments::{self, wrong};
use crate::controller::{algorithm, check_name, external};
use crate::errors::{Wrong, scenario};
use crate::trace::Trace;
use alcc_cc::{Algorithm, Registry};
use alcc_files::ScenarioFolder;
use alcc_results::scenario::{Files, Link, Resolved, ScenarioOptions, Value, reason};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString, PyTuple, PyType};
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The files that were opened while options were read.
#[derive(Clone, Default)]
pub(crate) struct Opened(Arc<Mutex<Vec<PathBuf>>>);

impl Opened {
    fn add(&self, path: &Path) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(path.to_owned());
    }

    /// Each once, in order.
    pub(crate) fn take(&self) -> Vec<PathBuf> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.sort();
        all.dedup();
        std::mem::take(&mut *all)
    }
}

/// The files that these arguments of simulate() read: traces, tables, the scenario and what it
/// names. Those before the first mistake, if there is one.
#[pyfunction]
#[pyo3(signature = (scenario=None, *, series=None, algorithms=None, **options))]
pub(crate) fn files_of(
    scenario: Option<&Bound<'_, PyAny>>,
    series: Option<&Bound<'_, PyAny>>,
    algorithms: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> Vec<PathBuf> {
    // It names no file.
    let _ = series;
    let opened = Opened::default();
    // The run says what is wrong.
    drop(read(
        scenario,
        options,
        algorithms,
        &Wrong::default(),
        &opened,
    ));
    opened.take()
}

/// The files of this machine, and traces of the caller.
#[derive(Default)]
struct PythonFiles {
    folder: ScenarioFolder,
    traces: Vec<(String, Vec<u8>)>,
    opened: Opened,
}

impl PythonFiles {
    fn trace(&self, name: &str) -> Option<&Vec<u8>> {
        let found = self.traces.iter().find(|(n, _)| n == name);
        found.map(|(_, text)| text)
    }
}

impl Files for PythonFiles {
    fn find(&self, name: &str) -> Option<PathBuf> {
        match self.trace(name) {
            Some(_) => Some(name.into()),
            None => self.folder.find(name),
        }
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        match path.to_str().and_then(|name| self.trace(name)) {
            Some(text) => Ok(Box::new(Cursor::new(text.clone()))),
            None => {
                self.opened.add(path);
                self.folder.open(path)
            }
        }
    }
}

/// The parsed arguments, ready to run.
pub(crate) struct Asked {
    pub(crate) resolved: Resolved,
    /// A controller is a class of Python.
    pub(crate) in_python: bool,
}

struct Reader<'a> {
    options: ScenarioOptions,
    files: PythonFiles,
    registry: Registry,
    classes: Vec<(String, Py<PyAny>)>,
    wrong: &'a Wrong,
}

/// Reads `path`, a scenario file, and the arguments that override it. `opened` gets the files that
/// are read.
pub(crate) fn read(
    file: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
    algorithms: Option<&Bound<'_, PyAny>>,
    wrong: &Wrong,
    opened: &Opened,
) -> PyResult<Asked> {
    let path = file.map(|file| arguments::path("scenario", file));
    let (file, folder) = match path.transpose()? {
        None => Default::default(),
        Some(path) => {
            opened.add(&path);
            alcc_files::read(&path).map_err(scenario)?
        }
    };
    let reads = opened.clone();
    let read_file = move |path: &str| {
        reads.add(Path::new(path));
        std::fs::File::open(path)
            .and_then(|file| alcc_units::read_bounded(file, 64))
            .map_err(|e| reason(&e))
    };
    let mut reader = Reader {
        options: ScenarioOptions::default(),
        files: PythonFiles {
            folder,
            traces: Vec::new(),
            opened: opened.clone(),
        },
        registry: alcc_zoo::registry().reading(read_file).with(external()),
        classes: Vec::new(),
        wrong,
    };
    if let Some(algorithms) = algorithms {
        reader.algorithms(algorithms)?;
    }
    for (key, value) in options.into_iter().flat_map(|a| a.iter()) {
        let key = arguments::text("simulate", &key, "names of arguments")?;
        reader.argument(&key.replace('_', "-"), &value)?;
    }
    let options = file.overridden_by(reader.options);
    let resolved = options.resolve(&reader.registry, &reader.files);
    // What went wrong in Python says more than that it went wrong.
    if let Some(error) = wrong.take() {
        return Err(error);
    }
    let resolved = resolved.map_err(scenario)?;
    let in_python = |name: &str| reader.classes.iter().any(|(n, _)| n == name);
    let in_python = resolved
        .scenario
        .flows
        .iter()
        .any(|f| in_python(&f.algorithm));
    Ok(Asked {
        resolved,
        in_python,
    })
}

impl Reader<'_> {
    /// Classes under names of their own: a dict, or a list of classes.
    fn algorithms(&mut self, given: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(named) = given.cast::<PyDict>() {
            for (name, class) in named.iter() {
                let name = arguments::text("algorithms", &name, "names of classes")?;
                self.register(&name, &class)?;
            }
            return Ok(());
        }
        let want = "a dictionary of classes by name, or a list of classes";
        if given.is_instance_of::<PyString>() || given.is_instance_of::<PyType>() {
            return Err(wrong("algorithms", given, want));
        }
        let classes = given.try_iter();
        for class in classes.map_err(|_| wrong("algorithms", given, want))? {
            let class = class?;
            if !class.is_instance_of::<PyType>() {
                return Err(wrong("algorithms", &class, "a class of controllers"));
            }
            self.class(&class)?;
        }
        Ok(())
    }

    /// The name of a class, which is registered.
    fn class(&mut self, class: &Bound<'_, PyAny>) -> PyResult<String> {
        let name: String = class.getattr("__name__")?.extract()?;
        let name = name.to_lowercase();
        self.register(&name, class)?;
        Ok(name)
    }

    fn register(&mut self, name: &str, class: &Bound<'_, PyAny>) -> PyResult<()> {
        check_name(name)?;
        if let Some((_, known)) = self.classes.iter().find(|(n, _)| n == name) {
            if known.bind(class.py()).is(class) {
                return Ok(());
            }
            return Err(taken(name, "two classes have it"));
        }
        if self.registry.iter().any(|a| a.name == name) {
            return Err(taken(name, "it is that of an algorithm of alcc"));
        }
        let made: Algorithm = algorithm(name, class, self.wrong)?;
        self.registry = std::mem::replace(&mut self.registry, alcc_zoo::registry()).with(made);
        self.classes.push((name.to_owned(), class.clone().unbind()));
        Ok(())
    }

    fn argument(&mut self, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if value.is_none() {
            return Ok(());
        }
        if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
            if value.len()? == 0 {
                let name = key.replace('-', "_");
                return Err(scenario(format!(
                    "{name}: found an empty list, expected at least one value: leave {name} out for the default"
                )));
            }
            for one in value.try_iter()? {
                self.one(key, &one?)?;
            }
            return Ok(());
        }
        self.one(key, value)
    }

    fn one(&mut self, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if key == "link"
            && let Ok(table) = value.cast::<PyDict>()
        {
            let mut link = Link::default();
            for (key, value) in table.iter() {
                let key = arguments::text("link", &key, "names such as 'rate'")?;
                let key = key.replace('_', "-");
                let value = self.value(&key, &value)?;
                link.add(&key, value)
                    .map_err(|e| scenario(as_arguments(e)))?;
            }
            self.options.link.push(link);
            return Ok(());
        }
        let text = if key == "flow" && value.is_instance_of::<PyType>() {
            Value {
                text: self.class(value)?,
                location: key.to_owned(),
            }
        } else {
            self.value(key, value)?
        };
        self.options
            .add(key, text)
            .map_err(|e| scenario(as_arguments(e)))
    }

    /// A value as it would be typed.
    fn value(&mut self, key: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
        let location = key.replace('-', "_");
        let text = if let Ok(trace) = value.cast::<Trace>() {
            let trace = trace.get();
            // Two may have one name, and a name may be that of a rate or of a file.
            let name = format!("trace-{}/{}", self.files.traces.len(), trace.name());
            self.files.traces.push((name.clone(), trace.text()));
            name
        } else if let Ok(flag) = value.cast::<PyBool>() {
            if flag.is_true() { "yes" } else { "no" }.to_owned()
        } else if let Some(text) = arguments::written(&location, value)? {
            text
        } else if let Ok(path) = value.extract::<PathBuf>() {
            path.display().to_string()
        } else {
            let want = match key {
                "flow" => "a string such as \"cubic\", or a class of controllers",
                "link" => "a string such as \"12mbit\", an alcc.Trace or a dictionary",
                _ => "a string such as \"40ms\" or a number",
            };
            return Err(wrong(&location, value, want));
        };
        Ok(Value { text, location })
    }
}

/// The message with the names of arguments in the place of keys.
fn as_arguments(message: String) -> String {
    let keys = ScenarioOptions::all_keys().into_iter();
    let dashed = keys.filter(|key| key.contains('-'));
    dashed.fold(message, |message, key| {
        message.replace(&key, &key.replace('-', "_"))
    })
}

fn taken(name: &str, why: &str) -> PyErr {
    scenario(format!(
        "controller '{name}': the name is taken, {why}: give another by algorithms={{\"name\": Class}}"
    ))
}
