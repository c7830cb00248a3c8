// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages of `alcc run`: one line at the start, and a summary.
use crate::kernel_limit;
use crate::library;
use crate::loader;
use crate::output::{Product, note};
use crate::trial::{PLAIN, Plan};
use crate::uncontrolled::NotControlled;
use crate::wording::{count, gate, hint, megabytes, note_refused};
use alcc_observe::{Missed, MissedCount, Segment, Uncontrolled};
use alcc_socket::{Settings, Triple};
use alcc_sys::Chosen;
use std::ffi::OsString;
use std::path::Path;

/// The run: command and settings.
pub(crate) struct Summary<'a> {
    pub(crate) command: &'a [OsString],
    pub(crate) settings: &'a Settings,
    pub(crate) triple: &'a Triple,
    pub(crate) quiet: bool,
    /// The preloaded library.
    pub(crate) library: &'a Path,
    /// The plan, if it is a trial.
    pub(crate) plan: Option<&'a Plan<'a>>,
    /// The reason why the algorithm does not run in the kernel, unless the user chose that.
    pub(crate) why: Option<String>,
}

impl Summary<'_> {
    /// Prints the line at the start.
    pub(crate) fn begin(&self) {
        if self.quiet {
            return;
        }
        let selection = &self.settings.selection;
        let loopback = if selection.loopback {
            ", loopback included"
        } else {
            ", but not those from this machine (--loopback)"
        };
        let outbound = if selection.outbound {
            " and opened"
        } else {
            ""
        };
        let narrowed = if selection.only.is_empty() && selection.except.is_empty() {
            ""
        } else {
            ", selected by --only, --except and the file"
        };
        let rules = if selection.rules.is_empty() {
            ""
        } else {
            " (or the algorithm of a section of the file)"
        };
        let what = match self.plan {
            Some(plan) => format!("{plan}, among"),
            None => format!("{}{rules} controls", self.settings.cc),
        };
        note(format_args!(
            "alcc: {what} accepted{outbound} TCP connections{loopback}{narrowed}{}; see 'alcc top'",
            self.form()
        ));
        if self.settings.share {
            note(format_args!(
                "alcc: connections to one address share one window, across all processes of this run"
            ));
        }
        if let Some(objection) = loader::objection(&self.command[0]) {
            note(objection);
        }
    }

    /// Feedback and enforcement, and the reason for them.
    pub(crate) fn chosen(&self) -> (String, String) {
        let Triple {
            feedback,
            enforcement,
            ..
        } = self.triple;
        let why = match (&self.why, Chosen::of(&self.settings.cc)) {
            (Some(why), _) => why.clone(),
            (None, Some(chosen)) if enforcement.resident => {
                format!("{} is loaded, and this user may select it", chosen.control)
            }
            (None, _) => "an option selects them".to_owned(),
        };
        let form = format!("{} / {}", feedback.name, enforcement.name);
        (form, why)
    }

    /// The enforcement and the reason for it, on a machine with a choice.
    fn form(&self) -> String {
        let enforcement = &self.triple.enforcement;
        let by = match (enforcement.resident, enforcement.kernel) {
            (true, _) => return ", in the kernel".to_owned(),
            (_, true) => "window in the kernel",
            _ => enforcement.name,
        };
        let loaded = kernel_limit::is_loaded("alcc_budget");
        let why = self.why.as_ref().filter(|_| loaded);
        why.map_or_else(String::new, |why| format!("; by {by}, because {why}"))
    }

    fn program(&self) -> String {
        self.command[0].to_string_lossy().into_owned()
    }

    /// The reason why no process has loaded the library.
    fn not_loaded(&self) -> String {
        // It was there at the start.
        if let Err(why) = library::check(self.library) {
            return why.to_string();
        }
        let program = loader::found(&self.command[0]);
        let why = program.and_then(|program| loader::not_loaded(&program));
        format!(
            "{}: use 'alcc attach' (root), or put 'alcc proxy' in front of it",
            why.unwrap_or(Missed::NotLoaded).why()
        )
    }

    /// Prints the summary. The exit status stays that of CMD.
    pub(crate) fn end(
        &self,
        json: Option<Product>,
        segment: &Segment,
        missed: &[NotControlled],
        trial: Option<serde_json::Value>,
    ) {
        let algorithms = self.algorithms(segment);
        if let Some(file) = json {
            let mut report = self.json(segment, &algorithms, missed);
            if let Some(trial) = trial {
                report["trial"] = trial;
            }
            file.report(report);
        }
        if self.quiet {
            return;
        }
        let totals = segment.totals();
        for m in missed {
            note(m.line());
        }
        for (why, n) in totals.bypassed_connections.iter().filter(|(_, n)| *n > 0) {
            note(format_args!(
                "alcc: on {} {} passed uncontrolled: {}",
                count(n, "connection"),
                megabytes(totals.bypassed_bytes.get(why)),
                hint(why.why(), Some(why.remedy())),
            ));
        }
        if totals.processes == 0 {
            note(format_args!(
                "alcc: no connection of {} was controlled: {}",
                self.program(),
                self.not_loaded()
            ));
            return;
        }
        let triple = Triple {
            algorithm: algorithms.join(", "),
            ..self.triple.clone()
        };
        note(format_args!(
            "alcc: {} controlled by {triple}, {}{}{}; runtime {:.3} CPU s",
            count(totals.connections, "connection"),
            megabytes(totals.bytes),
            gate(&triple.enforcement, totals.gate_closed),
            skipped(&segment.missed()),
            totals.runtime_cpu_ns as f64 / 1e9,
        ));
        if totals.failures > 0 {
            note(format_args!(
                "alcc: the runtime failed in {}, whose connections continued as plain TCP; their error logs have the reason",
                count(totals.failures, "process")
            ));
        }
        note_refused(
            totals.under_refused,
            self.settings.under.as_deref().unwrap_or("of its rule"),
        );
    }

    /// All algorithms in use, the one with most bytes first. Without a connection: the selected
    /// one.
    fn algorithms(&self, segment: &Segment) -> Vec<String> {
        let mut bytes = std::collections::BTreeMap::<String, u64>::new();
        for group in segment.groups() {
            *bytes.entry(group.algorithm).or_default() += group.totals.bytes;
        }
        let mut all: Vec<_> = bytes.into_iter().collect();
        all.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        if all.is_empty() {
            all.push((self.triple.algorithm.clone(), 0));
        }
        let shown = |name: String| match self.plan {
            Some(_) if name == PLAIN => "none (measured)".to_owned(),
            _ => name,
        };
        all.into_iter().map(|(name, _)| shown(name)).collect()
    }

    fn json(
        &self,
        segment: &Segment,
        algorithms: &[String],
        missed: &[NotControlled],
    ) -> serde_json::Value {
        let (settings, triple, totals) = (self.settings, self.triple, segment.totals());
        serde_json::json!({
            "algorithm": settings.cc.name,
            "options": settings.cc.options_text(),
            "algorithms": algorithms,
            "feedback": triple.feedback.name,
            "enforcement": triple.enforcement.name,
            "under": settings.under.clone().or_else(system_default),
            "processes": totals.processes,
            "connections": totals.connections,
            "left_alone": totals.left_alone,
            "gate_closed": totals.gate_closed,
            "bytes": totals.bytes,
            "readings": totals.readings,
            "runtime_cpu_s": totals.runtime_cpu_ns as f64 / 1e9,
            "wakeups": totals.wakeups,
            "late_wakeups": totals.late_wakeups,
            "failures": totals.failures,
            "under_refused": totals.under_refused,
            "uncontrolled": uncontrolled(segment),
            "not_controlled": missed.iter().map(|m| serde_json::json!({
                "program": m.program, "pid": m.pid, "reason": m.why.name(), "why": m.why.why(),
                "connections": m.connections, "bytes": m.bytes, "example": m.example.to_string(),
            })).collect::<Vec<_>>(),
        })
    }
}

/// The kernel's default congestion control.
fn system_default() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").ok()?;
    Some(name.trim().to_owned())
}

/// All uncontrolled traffic so far, by reason, as JSON: `alcc run --json` and `alcc top --json`.
pub(crate) fn uncontrolled(segment: &Segment) -> serde_json::Value {
    let all = segment.uncontrolled().map(|one| {
        serde_json::json!({"reason": one.reason, "connections": one.connections, "bytes": one.bytes})
    });
    all.collect()
}

/// The same as a line of text.
pub(crate) fn uncontrolled_line(one: &Uncontrolled) -> String {
    let bytes = one.bytes.map(|bytes| format!(", {}", megabytes(bytes)));
    format!(
        "not controlled: {}{}: {}",
        count(one.connections, "connection"),
        bytes.unwrap_or_default(),
        hint(one.why, one.remedy)
    )
}

/// "; 3 skipped: loopback (--loopback)".
fn skipped(missed: &[(Missed, MissedCount)]) -> String {
    let chosen = missed.iter().filter(|(why, _)| why.is_chosen());
    chosen
        .map(|(why, n)| {
            let remedy = why
                .remedy()
                .map_or_else(String::new, |remedy| format!(" ({remedy})"));
            format!("; {} skipped: {}{remedy}", n.connections, why.name())
        })
        .collect()
}
