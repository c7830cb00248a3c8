// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files that a scenario names: traces and tables of steps. The caller opens them.
use alcc_trace::{SCENARIOS, Scenario, Trace, TraceError, scenario};
use alcc_units::{Rng, Span, reason};
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Access to the files that a scenario names. `()` has none.
pub trait Files {
    /// The path of the file `name`, if there is one.
    fn find(&self, name: &str) -> Option<PathBuf>;

    /// Opens a file.
    ///
    /// # Errors
    /// The error of the system; [`ErrorKind::NotFound`] if there is none.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>>;
}

impl Files for () {
    fn find(&self, _: &str) -> Option<PathBuf> {
        None
    }

    fn open(&self, _: &Path) -> io::Result<Box<dyn Read>> {
        Err(ErrorKind::NotFound.into())
    }
}

/// The trace of a link.
#[derive(Clone, Debug)]
pub struct LinkTrace {
    /// Name of the trace, for reports.
    pub name: String,
    /// The delivery opportunities.
    pub trace: Trace,
    /// Read from a file: it does not depend on the seed.
    pub recorded: bool,
    /// Default radio links, towards the client and from it.
    pub radio: [&'static [&'static str]; 2],
}

/// Reads the file that `open` opens. Or generates the synthetic trace of that name with `seed` in
/// its usual length. The name is `synth:NAME`, or `NAME` if there is no such file.
///
/// # Errors
/// One line with the value that was found. For a missing file it lists the synthetic traces.
pub fn open_trace<R: Read>(
    name: &str,
    seed: u64,
    open: impl FnOnce() -> io::Result<R>,
) -> Result<LinkTrace, String> {
    if let Some(name) = name.strip_prefix("synth:") {
        return Ok(generate(synthetic(name)?, seed));
    }
    let file = match open() {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return scenario(name).map(|s| generate(s, seed)).ok_or_else(|| {
                format!(
                    "open trace {name}: no such file, and no scenario of that name: scenarios are {}",
                    synthetic_names()
                )
            });
        }
        Err(e) => return Err(format!("open trace {name}: {}", reason(&e))),
    };
    let trace = Trace::read(BufReader::new(file))
        .map_err(|e| format!("read trace {name}: {}", why_not_read(&e)))?;
    let path = Path::new(name);
    let file_name = path.file_name().unwrap_or(path.as_os_str());
    Ok(LinkTrace {
        name: file_name.to_string_lossy().into_owned(),
        trace,
        recorded: true,
        radio: [&[]; 2],
    })
}

/// The generator of this name.
///
/// # Errors
/// One line that lists the known scenarios.
pub fn synthetic(name: &str) -> Result<&'static Scenario, String> {
    scenario(name).ok_or_else(|| {
        format!(
            "synthetic trace '{name}': no scenario of that name: scenarios are {}",
            synthetic_names()
        )
    })
}

fn generate(scenario: &Scenario, seed: u64) -> LinkTrace {
    LinkTrace {
        name: format!("synth:{}", scenario.name),
        trace: scenario.generate(seed, Scenario::LENGTH),
        recorded: false,
        radio: scenario.radio,
    }
}

fn synthetic_names() -> String {
    let names: Vec<_> = SCENARIOS.iter().map(|s| s.name).collect();
    names.join(", ")
}

/// Start within a recorded trace for this seed: uniformly random, whole milliseconds.
pub fn random_start(trace: &Trace, seed: u64) -> Span {
    let ms = trace.period().as_nanos() / 1_000_000;
    Span::from_millis(Rng::new(seed ^ 0x0073_7461_7274).below(ms))
}

/// Reason why a trace could not be read, and a fix if one is known.
pub fn why_not_read(error: &TraceError) -> String {
    match error {
        TraceError::Read { source, .. } => reason(source),
        _ => error.to_string(),
    }
}
