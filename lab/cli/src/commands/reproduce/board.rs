// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--board`: the score table of all algorithms, and the default algorithm that follows from it.
use super::origin::provenance;
use super::simulate;
use super::written::{stored, traces, write};
use crate::commands::read_text;
use crate::failure::{Failure, reason};
use crate::output::print;
use crate::progress::Bar;
use alcc_experiment::Plan;
use alcc_experiment::board::{self, Board, Kind};
use alcc_experiment::run::Runner;
use alcc_files::ScenarioFolder;
use alcc_live::LabError;
use alcc_results::{Results, Row};
use std::path::Path;
use std::process::ExitCode;

/// The rows that a comparison measured.
pub(super) fn live(file: &Path) -> Result<Vec<Row>, Failure> {
    let wrong = |why: String| {
        Failure::usage(format!(
            "--live {}: {why}: give the results.json that 'alcc-lab compare --emu' wrote",
            file.display()
        ))
    };
    let text = read_text(file).map_err(|e| wrong(reason(&e)))?;
    Ok(Results::read(&text).map_err(wrong)?.flows)
}

/// Runs the board, and writes it into a folder.
pub(super) fn run(
    runner: &Runner<'_>,
    files: &ScenarioFolder,
    out: &Path,
    live: Option<Vec<Row>>,
    into: &Path,
) -> Result<ExitCode, Failure> {
    let schemes = board::schemes(runner.registry);
    // It takes a quiet machine: what is stored stays.
    let before = stored(&into.join("board.json"), Board::from_json)?.filter(|_| live.is_none());
    let mut bar = Bar::new();
    let provenance = provenance();
    let mut board = Board {
        by: provenance.by,
        on: provenance.on,
        ..Board::default()
    };
    for (number, kind) in Kind::SIMULATED.into_iter().enumerate() {
        let definition = kind.definition(&schemes).map_err(Failure::usage)?;
        let plan = Plan::new(&definition).map_err(Failure::usage)?;
        let id = format!("board-{}", kind.name());
        let part = |done: usize| number as f64 + done as f64 / plan.runs.len().max(1) as f64;
        let runs = simulate(runner, &id, &plan, out, &mut |done, first| {
            if first {
                bar.skip((part(done) - part(0)) / Kind::SIMULATED.len() as f64);
            }
            bar.show(part(done) / Kind::SIMULATED.len() as f64, &id);
        })?;
        let runs = runs.map_err(|error| match error {
            LabError::NoTrace(what) => Failure::usage(format!(
                "the board needs the trace {what}: give --traces; see docs/traces.md for the traces"
            )),
            other => Failure::usage(format!("the board: {other}")),
        })?;
        board.starts = definition.starts;
        board.traces.extend(traces(plan.runs.iter(), files));
        if let Some(text) = kind.toml() {
            let hash = alcc_live::hash_of_text(text);
            board.definitions.insert(kind.name().to_owned(), hash);
        }
        board.cells.extend(board::cells(kind, &runs));
    }
    drop(bar);
    before
        .into_iter()
        .for_each(|before| board.keep_live(before));
    board
        .cells
        .extend(live.into_iter().flat_map(|live| board::live(&live)));
    write(
        into,
        "board.json",
        &board.to_json().map_err(Failure::failed)?,
    )?;
    let page = board.page().map_err(Failure::failed)?;
    write(into, "board.md", &page)?;
    print(format_args!(
        "The default that follows: {}\nThe page: {}\n",
        board.default_algorithm().unwrap_or("none"),
        into.join("board.md").display()
    ))?;
    Ok(ExitCode::SUCCESS)
}
