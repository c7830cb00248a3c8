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
use std::fmt::Write as _;
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
        let algorithms: Vec<_> = registry
            .iter()
            .map(|a| {
                serde_json::json!({"name": a.name, "summary": a.summary, "profiles": a.profiles, "options": json(a.options)})
            })
            .collect();
        let queues: Vec<_> = QueueKind::all()
            .map(|q| {
                serde_json::json!({"name": q.name, "summary": q.summary, "options": json(q.options)})
            })
            .collect();
        let radio: Vec<_> = RadioKind::all()
            .map(|r| {
                serde_json::json!({"name": r.name, "summary": r.summary, "options": json(r.options)})
            })
            .collect();
        let resident: Vec<_> = alcc_bpf::RESIDENT
            .iter()
            .map(|r| {
                serde_json::json!({"name": r.algorithm, "control": r.control.name, "follows": r.follows})
            })
            .collect();
        let experiments: Vec<_> = alcc_experiment::catalogue::all()
            .map(|e| serde_json::json!({"name": e.id}))
            .collect();
        let json = serde_json::json!({
            "algorithms": algorithms, "resident": resident, "transports": transports_json(), "carriers": carriers_json(), "queues": queues, "radio": radio, "links": links(), "preloaded": pairs_json(Deployment::Preloaded),
            "own": pairs_json(Deployment::Own), "experiments": experiments,
        });
        print(format_args!("{json}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    print(text(&registry))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the lists as text.
fn text(registry: &Registry) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "Algorithms (--cc NAME:option=value,...)");
    for a in registry.iter() {
        let _ = writeln!(text, "  {:<8} {}", a.name, a.summary);
        if !a.profiles.is_empty() {
            let _ = writeln!(text, "           profile={}", a.profiles.join("|"));
        }
        options(&mut text, a.options);
    }
    let _ = writeln!(
        text,
        "\nIn the kernel, after 'alcc bpf load' (alcc attach --cc NAME)"
    );
    for r in alcc_bpf::RESIDENT {
        let _ = writeln!(
            text,
            "  {:<8} {}, as {}",
            r.algorithm, r.control.name, r.follows
        );
    }
    let _ = writeln!(text, "\nQueues (--queue NAME:option=value,...)");
    for q in QueueKind::all() {
        let _ = writeln!(text, "  {:<8} {}", q.name, q.summary);
        options(&mut text, q.options);
    }
    let _ = writeln!(text, "\nRadio links (--radio NAME:option=value,...)");
    for r in RadioKind::all() {
        let _ = writeln!(text, "  {:<11} {}", r.name, r.summary);
        options(&mut text, r.options);
    }
    let _ = writeln!(text, "\nSynthetic links (--down, --link, --trace NAME)");
    for s in SCENARIOS {
        let _ = writeln!(text, "  {:<18} {}", s.name, s.about);
    }
    let _ = writeln!(text, "\nPublished experiments (alcc reproduce NAME)");
    for e in alcc_experiment::catalogue::all() {
        let title = e.definition().map(|d| d.title).unwrap_or_default();
        let _ = writeln!(text, "  {:<22} {title}", e.id);
    }
    let _ = writeln!(text, "\nTransports (alcc send --transport NAME)");
    for t in TRANSPORTS.rows() {
        let _ = writeln!(text, "  {:<8} {}", t.name, t.summary);
    }
    let _ = writeln!(
        text,
        "\nCarriers (--transport in-band --carrier NAME:OPTIONS; joined by '+', topmost first)"
    );
    for c in alcc_carrier::rows() {
        let colon = if c.options.is_empty() { "" } else { ":" };
        let _ = writeln!(
            text,
            "  {:<26} {}",
            format!("{}{colon}{}", c.name, c.options),
            c.summary
        );
    }
    for deployment in Deployment::ALL {
        let how = match deployment {
            Deployment::Preloaded => " (alcc run --feedback F --enforce E)",
            Deployment::Own => {
                " (ALCC_FEEDBACK, ALCC_ENFORCE; alcc proxy --feedback F --enforce E)"
            }
        };
        let _ = writeln!(
            text,
            "\nFeedback and enforcement of {}{how}, best first",
            deployment.about()
        );
        for (feedback, enforcement) in pairs(deployment) {
            let _ = writeln!(
                text,
                "  {:<10} {:<12} {}; {}",
                feedback.name, enforcement.name, feedback.summary, enforcement.summary
            );
        }
    }
    let _ = writeln!(
        text,
        "\nFeedback and enforcement between alcc send and alcc recv (--transport T --cc A)"
    );
    for t in TRANSPORTS.rows() {
        let _ = writeln!(
            text,
            "  {:<10} {:<12} {}",
            t.feedback, t.enforcement, t.name
        );
    }
    text
}

fn transports_json() -> Vec<serde_json::Value> {
    TRANSPORTS
        .rows()
        .map(|t| {
            serde_json::json!({
                "name": t.name, "summary": t.summary, "feedback": t.feedback, "enforcement": t.enforcement,
            })
        })
        .collect()
}

fn carriers_json() -> Vec<serde_json::Value> {
    alcc_carrier::rows()
        .iter()
        .map(|c| serde_json::json!({"name": c.name, "options": c.options, "summary": c.summary}))
        .collect()
}

fn links() -> Vec<serde_json::Value> {
    SCENARIOS
        .iter()
        .map(|s| serde_json::json!({"name": s.name, "summary": s.about}))
        .collect()
}

fn pairs_json(deployment: Deployment) -> Vec<serde_json::Value> {
    pairs(deployment)
        .map(|(f, e)| serde_json::json!({"feedback": f.name, "enforcement": e.name}))
        .collect()
}

fn options(text: &mut String, options: &[OptionDoc]) {
    for o in options {
        let _ = writeln!(text, "           {}={}  {}", o.name, o.default, o.help);
    }
}

fn json(options: &[OptionDoc]) -> Vec<serde_json::Value> {
    options
        .iter()
        .map(|o| serde_json::json!({"name": o.name, "default": o.default, "help": o.help}))
        .collect()
}
