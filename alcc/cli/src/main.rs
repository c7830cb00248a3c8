// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `alcc` program. A command is one file in `commands/` and one line in [`Command`].
#![cfg_attr(
    not(test),
    deny(
        clippy::print_stdout,
        clippy::print_stderr,
        clippy::dbg_macro,
        reason = "they panic when nobody reads: use output.rs"
    )
)]
mod certificate;
mod changes_arg;
mod chosen;
mod commands;
mod completion;
mod config;
#[cfg(test)]
mod docs_tests;
mod doctor;
mod events;
mod failure;
mod figure_arg;
mod handover;
mod holders;
mod http;
mod json_out;
mod kernel_limit;
mod library;
mod loader;
mod manual;
mod metrics;
mod numbers;
mod output;
mod plugin_arg;
mod progress;
#[cfg(test)]
mod remedies_tests;
mod running;
mod runs;
mod service;
mod shared;
mod summary;
mod supervise;
mod trace_arg;
mod transfer;
mod transport;
mod trial;
mod trusted;
mod uncontrolled;
mod usage;
mod wording;

use clap::{CommandFactory, Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// Better congestion control for ordinary TCP connections, run from user space.
#[derive(Parser)]
#[command(
    name = "alcc",
    version,
    max_term_width = 100,
    after_help = "To begin: 'alcc doctor' says what works here, 'alcc demo' shows the effect, 'alcc run nginx' is nginx under alcc.\n\nExit status: 0 done, 1 a check or transfer failed, 2 bad usage or the machine cannot do it. Commands that run a program return its status."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(commands::demo::Args),
    Run(commands::run::Args),
    Trial(Box<commands::trial::Args>),
    Proxy(commands::proxy::Args),
    Attach(commands::attach::Args),
    Detach(commands::attach::DetachArgs),
    Bpf(commands::bpf::Args),
    Ctl(commands::ctl::Args),
    Top(commands::top::Args),
    Log(commands::log::Args),
    Emulate(commands::emulate::Args),
    Sim(Box<commands::sim::Args>),
    Send(commands::send::Args),
    Recv(commands::recv::Args),
    Trace(commands::trace::Args),
    Compare(commands::compare::Args),
    Reproduce(commands::reproduce::Args),
    Sweep(Box<commands::sweep::Args>),
    Worst(commands::worst::Args),
    Mdi(commands::mdi::Args),
    List(commands::list::Args),
    Doctor(commands::doctor::Args),
    #[command(hide = true)]
    Generate(commands::generate::Args),
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Demo(args) => commands::demo::run(&args),
        Command::Compare(args) => commands::compare::run(&args),
        Command::Run(args) => commands::run::run(&args),
        Command::Trial(args) => commands::trial::run(&args),
        Command::Proxy(args) => commands::proxy::run(&args),
        Command::Attach(args) => commands::attach::run(&args),
        Command::Detach(args) => commands::attach::detach(&args),
        Command::Bpf(args) => commands::bpf::run(&args),
        Command::Ctl(args) => commands::ctl::run(&args),
        Command::Top(args) => commands::top::run(&args),
        Command::Log(args) => commands::log::run(&args),
        Command::Emulate(args) => commands::emulate::run(&args),
        Command::Sim(args) => commands::sim::run(&args),
        Command::Send(args) => commands::send::run(&args),
        Command::Recv(args) => commands::recv::run(&args),
        Command::Trace(args) => commands::trace::run(&args),
        Command::Reproduce(args) => commands::reproduce::run(&args),
        Command::Sweep(args) => commands::sweep::run(&args),
        Command::Worst(args) => commands::worst::run(&args),
        Command::Mdi(args) => commands::mdi::run(&args),
        Command::List(args) => commands::list::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Generate(args) => commands::generate::run(&args, &Cli::command()),
    }
}

fn main() -> ExitCode {
    output::panics_are_one_line();
    let done = match usage::parse::<Cli>() {
        Ok(cli) => run(cli.command),
        Err(said) => said,
    };
    done.unwrap_or_else(|failure| {
        output::note(output::one_line(&format!("alcc: {failure}")));
        failure::exit_code(&failure)
    })
}
