// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::failure::Failure;
use crate::kernel_limit::is_loaded;
use crate::output::print;
use crate::plugin_arg::Plugins;
use crate::program::Program;
use alcc_cc::Registry;
use alcc_socket::{Deployment, pairs};
use alcc_units::OptionDoc;
use serde_json::{Map, Value, json};
use std::fmt::{Display, Write as _};
use std::process::ExitCode;

/// List algorithms and the other values that options take
///
/// Feedback is how an algorithm learns what has arrived, enforcement what keeps the sender to the
/// algorithm's window, and a carrier what an in-band stream runs over.
///
/// With NAME, shows the details of everything with this name: options, profiles, summaries.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  alcc list\n  alcc list verus budget")]
pub struct Args {
    /// Show the details of these, such as verus
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    plugins: Plugins,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Args {
    /// The algorithms of a program and its plug-ins.
    pub fn registry(&self, program: &Program) -> Result<Registry, Failure> {
        self.plugins.registry((program.algorithms)())
    }

    /// Prints the text or the JSON object: everything, or the details of the given names.
    pub fn show(
        &self,
        program: &Program,
        lists: &Lists,
        mut json: Value,
    ) -> Result<ExitCode, Failure> {
        let unknown = self.names.iter().find(|name| !lists.has(name));
        if let Some(name) = unknown {
            return Err(Failure::usage(format!(
                "list '{name}': unknown name: '{} list' shows all names",
                program.name
            )));
        }
        if self.json {
            if !self.names.is_empty() {
                let lists = json.as_object_mut().into_iter().flat_map(Map::values_mut);
                for list in lists.filter_map(Value::as_array_mut) {
                    let is =
                        |one: &Value, name: &str| one["name"] == *name || one["control"] == *name;
                    list.retain(|one| self.names.iter().any(|name| is(one, name)));
                }
            }
            print(format_args!("{json}\n"))?;
        } else if self.names.is_empty() {
            print(lists.overview())?;
        } else {
            print(lists.details(&self.names))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// `alcc list`.
pub(crate) fn run(args: &Args, program: &Program) -> Result<ExitCode, Failure> {
    let registry = args.registry(program)?;
    let mut lists = Lists::default();
    lists.algorithms(&registry);
    lists.resident();
    lists.transports(program);
    lists.carriers();
    lists.pairs(program);
    let json = json!({
        "algorithms": algorithms_json(&registry),
        "resident": resident_json(),
        "transports": transports_json(program),
        "carriers": carriers_json(),
        "preloaded": pairs_json(Deployment::Preloaded),
        "own": pairs_json(Deployment::Own),
    });
    args.show(program, &lists, json)
}

/// Width of a line of names.
const WIDTH: usize = 96;

/// Lists of what can be named, with headings.
#[derive(Default)]
pub struct Lists(Vec<List>);

struct List {
    heading: String,
    /// The overview has the names alone.
    only_names: bool,
    entries: Vec<Entry>,
}

struct Entry {
    name: String,
    /// The kernel's name of it.
    control: Option<&'static str>,
    summary: String,
    details: Vec<String>,
}

impl Entry {
    /// True if `name` is its name, or a word of it, or the kernel's.
    fn is(&self, name: &str) -> bool {
        self.name.split_whitespace().any(|word| word == name) || self.control == Some(name)
    }
}

impl Lists {
    /// Begins a list.
    pub fn heading(&mut self, heading: impl Display) {
        self.begin(heading, false);
    }

    /// Begins a list whose overview has the names alone.
    pub fn heading_of_names(&mut self, heading: impl Display) {
        self.begin(heading, true);
    }

    fn begin(&mut self, heading: impl Display, only_names: bool) {
        self.0.push(List {
            heading: heading.to_string(),
            only_names,
            entries: Vec::new(),
        });
    }

    /// Adds an entry to the last list.
    pub fn entry(&mut self, name: impl Display, summary: impl Display) {
        if let Some(list) = self.0.last_mut() {
            list.entries.push(Entry {
                name: name.to_string(),
                summary: summary.to_string(),
                control: None,
                details: Vec::new(),
            });
        }
    }

    /// Adds options to the last entry.
    pub fn options(&mut self, options: &[OptionDoc]) {
        for o in options {
            self.detail(format_args!("{}={}  {}", o.name, o.default, o.help));
        }
    }

    fn detail(&mut self, detail: impl Display) {
        let last = self.0.last_mut().and_then(|list| list.entries.last_mut());
        if let Some(entry) = last {
            entry.details.push(detail.to_string());
        }
    }

    fn has(&self, name: &str) -> bool {
        let mut entries = self.0.iter().flat_map(|list| &list.entries);
        entries.any(|entry| entry.is(name))
    }

    /// All names, with a summary each where there are few.
    fn overview(&self) -> String {
        let mut text = String::new();
        for list in &self.0 {
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}{}", list.heading);
            let names = list.entries.iter().map(|entry| entry.name.len());
            let width = names.max().unwrap_or(0);
            if list.only_names {
                for row in list.entries.chunks(WIDTH / (width + 2)) {
                    let row = row.iter().map(|entry| format!("  {:<width$}", entry.name));
                    let _ = writeln!(text, "{}", row.collect::<String>().trim_end());
                }
            } else {
                for entry in &list.entries {
                    let _ = writeln!(text, "  {:<width$}  {}", entry.name, entry.summary);
                }
            }
        }
        text
    }

    /// All about the entries with these names.
    fn details(&self, names: &[String]) -> String {
        let mut text = String::new();
        for list in &self.0 {
            let is_wanted = |entry: &&Entry| names.iter().any(|name| entry.is(name));
            let entries: Vec<_> = list.entries.iter().filter(is_wanted).collect();
            if entries.is_empty() {
                continue;
            }
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}{}", list.heading);
            for entry in entries {
                let _ = writeln!(text, "  {}  {}", entry.name, entry.summary);
                for detail in &entry.details {
                    let _ = writeln!(text, "      {detail}");
                }
            }
        }
        text
    }

    /// The algorithms.
    pub fn algorithms(&mut self, registry: &Registry) {
        self.heading("Algorithms (--cc NAME:option=value,...)");
        for a in registry.iter() {
            self.entry(a.name, a.summary);
            if !a.profiles.is_empty() {
                self.detail(format_args!("profile={}", a.profiles.join("|")));
            }
            self.options(a.options);
        }
    }

    /// Algorithms that run in the kernel.
    fn resident(&mut self) {
        self.heading("In the kernel, after 'alcc bpf load' (alcc policy, alcc attach --cc NAME)");
        for r in alcc_bpf::RESIDENT {
            let about = format_args!("{}, as {}", r.control.name, r.follows);
            self.entry(r.algorithm, about);
            let name = r.algorithm;
            self.control(
                r.control.name,
                format_args!(
                    "cc = \"{name}\" in a policy, 'alcc attach --cc {name}', 'alcc run --cc {name}'"
                ),
            );
        }
        self.heading("In the kernel, for windows that a program sets");
        let window = &alcc_bpf::WINDOW;
        self.entry(window.name, window.does);
        let who = "'alcc run' and 'alcc attach' with an algorithm that has no form in the kernel";
        self.control(window.name, who);
    }

    /// Adds to the last entry how to get a control of the kernel, and what selects it.
    fn control(&mut self, name: &'static str, by: impl Display) {
        let last = self.0.last_mut().and_then(|list| list.entries.last_mut());
        if let Some(entry) = last {
            entry.control = Some(name);
        }
        let is = if is_loaded(name) { "is" } else { "is not" };
        self.detail(format_args!(
            "{name} {is} loaded here: 'alcc bpf load' as root loads it"
        ));
        self.detail(format_args!("selected by: {by}"));
    }

    /// The transports of a program.
    pub fn transports(&mut self, program: &Program) {
        self.heading(format_args!(
            "Transports ({} send --transport NAME)",
            program.name
        ));
        for t in program.transports.rows() {
            self.entry(t.name, t.summary);
        }
    }

    fn carriers(&mut self) {
        self.heading("Carriers (--transport in-band --carrier NAME)");
        for c in alcc_carrier::rows() {
            self.entry(c.name, c.summary);
        }
    }

    /// Which ways to learn and to enforce go together.
    fn pairs(&mut self, program: &Program) {
        for deployment in Deployment::ALL {
            let how = match deployment {
                Deployment::Preloaded => "(alcc run --feedback F --enforce E)",
                Deployment::Own => {
                    "(ALCC_FEEDBACK, ALCC_ENFORCE; alcc proxy --feedback F --enforce E)"
                }
            };
            let about = deployment.about();
            self.heading(format_args!(
                "Feedback and enforcement of {about} {how}, best first"
            ));
            for (f, e) in pairs(deployment) {
                self.pair(f.name, e.name, format_args!("{}; {}", f.summary, e.summary));
            }
        }
        self.heading(
            "Feedback and enforcement between alcc send and alcc recv (alcc send --transport T --cc A)",
        );
        for t in program.transports.rows() {
            self.pair(t.feedback, t.enforcement, t.name);
        }
    }

    fn pair(&mut self, feedback: &str, enforcement: &str, about: impl Display) {
        self.entry(format_args!("{feedback:<10} {enforcement:<12}"), about);
    }
}

/// Something with options.
pub fn with_options(name: &str, summary: &str, options: &[OptionDoc]) -> Value {
    json!({"name": name, "summary": summary, "options": options_json(options)})
}

/// [`Lists::algorithms`] for programs.
pub fn algorithms_json(registry: &Registry) -> Vec<Value> {
    registry
        .iter()
        .map(|a| json!({"name": a.name, "summary": a.summary, "profiles": a.profiles, "options": options_json(a.options)}))
        .collect()
}

/// [`Lists::transports`] for programs.
pub fn transports_json(program: &Program) -> Vec<Value> {
    program
        .transports
        .rows()
        .map(|t| json!({"name": t.name, "summary": t.summary, "feedback": t.feedback, "enforcement": t.enforcement}))
        .collect()
}

fn resident_json() -> Vec<Value> {
    let window = &alcc_bpf::WINDOW;
    alcc_bpf::RESIDENT
        .iter()
        .map(|r| json!({"name": r.algorithm, "control": r.control.name, "follows": r.follows}))
        .chain([json!({"name": window.name, "control": window.name, "follows": null})])
        .collect()
}

fn carriers_json() -> Vec<Value> {
    alcc_carrier::rows()
        .iter()
        .map(|c| json!({"name": c.name, "summary": c.summary}))
        .collect()
}

fn pairs_json(deployment: Deployment) -> Vec<Value> {
    pairs(deployment)
        .map(|(f, e)| json!({"feedback": f.name, "enforcement": e.name}))
        .collect()
}

fn options_json(options: &[OptionDoc]) -> Vec<Value> {
    options
        .iter()
        .map(|o| json!({"name": o.name, "default": o.default, "help": o.help}))
        .collect()
}
