// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::failure::Failure;
use crate::output::print;
use crate::plugin_arg::Plugins;
use alcc_cc::Registry;
use alcc_link::{QueueKind, RadioKind};
use alcc_socket::{Deployment, pairs};
use alcc_trace::SCENARIOS;
use alcc_transports::TRANSPORTS;
use alcc_units::OptionDoc;
use serde_json::{Value, json};
use std::fmt::{Display, Write as _};
use std::process::ExitCode;

/// Show algorithms, queues, radio links, synthetic links, experiments, transports, carriers, and
/// which feedback and enforcement go together
#[derive(clap::Args)]
#[command(after_help = "Example:\n  alcc list")]
pub(crate) struct Args {
    #[command(flatten)]
    plugins: Plugins,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let registry = args.plugins.registry()?;
    if args.json {
        print(format_args!("{}\n", json(&registry)))?;
    } else {
        print(text(&registry))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The lists as text. Each has a heading, and below it an entry in each line.
#[derive(Default)]
struct Lists(String);

impl Lists {
    fn heading(&mut self, heading: impl Display) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.0, "{gap}{heading}");
    }

    /// `width` is that of the column of names.
    fn entry(&mut self, width: usize, name: impl Display, about: impl Display) {
        let _ = writeln!(self.0, "  {:<width$} {about}", name.to_string());
    }

    fn options(&mut self, options: &[OptionDoc]) {
        for o in options {
            self.detail(format_args!("{}={}  {}", o.name, o.default, o.help));
        }
    }

    fn detail(&mut self, detail: impl Display) {
        let _ = writeln!(self.0, "           {detail}");
    }

    /// Which ways to learn and to enforce go together.
    fn pairs(&mut self) {
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
        for t in TRANSPORTS.rows() {
            self.pair(t.feedback, t.enforcement, t.name);
        }
    }

    fn pair(&mut self, feedback: &str, enforcement: &str, about: impl Display) {
        self.entry(23, format_args!("{feedback:<10} {enforcement:<12}"), about);
    }
}

/// Everything that has a name.
fn text(registry: &Registry) -> String {
    let mut lists = Lists::default();
    lists.heading("Algorithms (--cc NAME:option=value,...)");
    for a in registry.iter() {
        lists.entry(11, a.name, a.summary);
        if !a.profiles.is_empty() {
            lists.detail(format_args!("profile={}", a.profiles.join("|")));
        }
        lists.options(a.options);
    }
    lists.heading("In the kernel, after 'alcc bpf load' (alcc attach --cc NAME)");
    for r in alcc_bpf::RESIDENT {
        let about = format_args!("{}, as {}", r.control.name, r.follows);
        lists.entry(8, r.algorithm, about);
    }
    lists.heading("Queues (--queue NAME:option=value,...)");
    for q in QueueKind::all() {
        lists.entry(8, q.name, q.summary);
        lists.options(q.options);
    }
    lists.heading("Radio links (--radio NAME:option=value,...)");
    for r in RadioKind::all() {
        lists.entry(11, r.name, r.summary);
        lists.options(r.options);
    }
    lists.heading("Synthetic links (--down, --link, --trace NAME)");
    for s in SCENARIOS {
        lists.entry(18, s.name, s.about);
    }
    lists.heading("Published experiments (alcc reproduce NAME)");
    for e in alcc_experiment::catalogue::all() {
        let title = e.definition().map(|d| d.title).unwrap_or_default();
        lists.entry(22, e.id, title);
    }
    lists.heading("Transports (alcc send --transport NAME)");
    for t in TRANSPORTS.rows() {
        lists.entry(8, t.name, t.summary);
    }
    lists.heading(
        "Carriers (--transport in-band --carrier NAME:OPTIONS; joined by '+', topmost first)",
    );
    for c in alcc_carrier::rows() {
        let colon = if c.options.is_empty() { "" } else { ":" };
        lists.entry(
            26,
            format_args!("{}{colon}{}", c.name, c.options),
            c.summary,
        );
    }
    lists.pairs();
    lists.0
}

/// The same for programs.
fn json(registry: &Registry) -> Value {
    let with_options = |name: &str, summary: &str, options: &[OptionDoc]| json!({"name": name, "summary": summary, "options": options_json(options)});
    let algorithms: Vec<_> = registry
        .iter()
        .map(|a| json!({"name": a.name, "summary": a.summary, "profiles": a.profiles, "options": options_json(a.options)}))
        .collect();
    let resident: Vec<_> = alcc_bpf::RESIDENT
        .iter()
        .map(|r| json!({"name": r.algorithm, "control": r.control.name, "follows": r.follows}))
        .collect();
    let transports: Vec<_> = TRANSPORTS
        .rows()
        .map(|t| json!({"name": t.name, "summary": t.summary, "feedback": t.feedback, "enforcement": t.enforcement}))
        .collect();
    let carriers: Vec<_> = alcc_carrier::rows()
        .iter()
        .map(|c| json!({"name": c.name, "options": c.options, "summary": c.summary}))
        .collect();
    let queues: Vec<_> = QueueKind::all()
        .map(|q| with_options(q.name, q.summary, q.options))
        .collect();
    let radio: Vec<_> = RadioKind::all()
        .map(|r| with_options(r.name, r.summary, r.options))
        .collect();
    let links: Vec<_> = SCENARIOS
        .iter()
        .map(|s| json!({"name": s.name, "summary": s.about}))
        .collect();
    let experiments: Vec<_> = alcc_experiment::catalogue::all()
        .map(|e| json!({"name": e.id}))
        .collect();
    json!({
        "algorithms": algorithms,
        "resident": resident,
        "transports": transports,
        "carriers": carriers,
        "queues": queues,
        "radio": radio,
        "links": links,
        "preloaded": pairs_json(Deployment::Preloaded),
        "own": pairs_json(Deployment::Own),
        "experiments": experiments,
    })
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
