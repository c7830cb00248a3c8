// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::failure::Failure;
use crate::output::print;
use crate::plugin_arg::Plugins;
use crate::program::Program;
use alcc_cc::Registry;
use alcc_socket::{Deployment, pairs};
use alcc_units::OptionDoc;
use serde_json::{Value, json};
use std::fmt::{Display, Write as _};
use std::process::ExitCode;

/// Show algorithms, transports, carriers, and which feedback and enforcement go together
#[derive(clap::Args)]
#[command(after_help = "Example:\n  alcc list")]
pub struct Args {
    #[command(flatten)]
    plugins: Plugins,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Args {
    /// The algorithms of a program and its plug-ins.
    pub fn registry(&self, program: &Program) -> Result<Registry, Failure> {
        self.plugins.registry((program.algorithms)())
    }

    /// Prints one of the two.
    pub fn show(&self, text: Lists, json: &Value) -> Result<ExitCode, Failure> {
        if self.json {
            print(format_args!("{json}\n"))?;
        } else {
            print(text.0)?;
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
    args.show(lists, &json)
}

/// The lists as text. Each has a heading, and below it an entry in each line.
#[derive(Default)]
pub struct Lists(String);

impl Lists {
    pub fn heading(&mut self, heading: impl Display) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.0, "{gap}{heading}");
    }

    /// A name and what it is. `width` is that of the column of names.
    pub fn entry(&mut self, width: usize, name: impl Display, about: impl Display) {
        let _ = writeln!(self.0, "  {:<width$} {about}", name.to_string());
    }

    pub fn options(&mut self, options: &[OptionDoc]) {
        for o in options {
            self.detail(format_args!("{}={}  {}", o.name, o.default, o.help));
        }
    }

    pub fn detail(&mut self, detail: impl Display) {
        let _ = writeln!(self.0, "           {detail}");
    }

    /// The algorithms.
    pub fn algorithms(&mut self, registry: &Registry) {
        self.heading("Algorithms (--cc NAME:option=value,...)");
        for a in registry.iter() {
            self.entry(11, a.name, a.summary);
            if !a.profiles.is_empty() {
                self.detail(format_args!("profile={}", a.profiles.join("|")));
            }
            self.options(a.options);
        }
    }

    /// Those that live in the kernel.
    fn resident(&mut self) {
        self.heading("In the kernel, after 'alcc bpf load' (alcc attach --cc NAME)");
        for r in alcc_bpf::RESIDENT {
            let about = format_args!("{}, as {}", r.control.name, r.follows);
            self.entry(8, r.algorithm, about);
        }
    }

    /// The transports of a program.
    pub fn transports(&mut self, program: &Program) {
        self.heading(format_args!(
            "Transports ({} send --transport NAME)",
            program.name
        ));
        for t in program.transports.rows() {
            self.entry(8, t.name, t.summary);
        }
    }

    fn carriers(&mut self) {
        self.heading("Carriers (--transport in-band --carrier NAME)");
        for c in alcc_carrier::rows() {
            self.entry(8, c.name, c.summary);
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
        self.entry(23, format_args!("{feedback:<10} {enforcement:<12}"), about);
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
    alcc_bpf::RESIDENT
        .iter()
        .map(|r| json!({"name": r.algorithm, "control": r.control.name, "follows": r.follows}))
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
