// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `alcc` program as a library: the laboratory's program shares its error lines, progress, plug-ins
//! and transfers. A command is one file in `commands/` and one line in `Command`. The interface is
//! not stable.
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
mod chosen;
#[doc(hidden)]
pub mod commands;
mod config;
mod doctor;
mod events;
#[doc(hidden)]
pub mod failure;
#[doc(hidden)]
pub mod handover;
mod holders;
#[doc(hidden)]
pub mod http;
#[doc(hidden)]
pub mod json_out;
mod kernel_limit;
mod library;
mod loader;
mod metrics;
#[doc(hidden)]
pub mod output;
#[doc(hidden)]
pub mod plugin_arg;
mod policy;
#[doc(hidden)]
pub mod program;
#[doc(hidden)]
pub mod progress;
mod running;
mod runs;
mod service;
mod shared;
mod summary;
#[doc(hidden)]
pub mod supervise;
mod transfer;
mod transport;
mod trial;
mod trusted;
mod uncontrolled;
#[doc(hidden)]
pub mod usage;
mod wording;

use clap::{CommandFactory, Parser, Subcommand};
use failure::Failure;
use program::Program;
use std::process::ExitCode;
use usage::Idle;

/// Put TCP connections under a congestion control that keeps queues short: in the kernel, in the
/// server's process, or in a proxy.
#[derive(Parser)]
#[command(
    name = "alcc",
    version,
    max_term_width = 100,
    after_help = "To begin: 'alcc doctor' reports what works on this machine, 'alcc run -- nginx' runs nginx under alcc, and 'alcc-lab demo' shows the effect.\n\nExit status: 0 success, 1 a check or a transfer failed, 2 wrong usage or a missing requirement. Commands that run a program return its exit status."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(commands::run::Args),
    Trial(Box<commands::trial::Args>),
    Proxy(commands::proxy::Args),
    Attach(commands::attach::Args),
    Detach(commands::attach::DetachArgs),
    Policy(commands::policy::Args),
    Off(commands::off::Args),
    Bpf(commands::bpf::Args),
    Ctl(commands::ctl::Args),
    Top(commands::top::Args),
    Log(commands::log::Args),
    Send(commands::send::Args),
    Recv(commands::recv::Args),
    List(commands::list::Args),
    Doctor(commands::doctor::Args),
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Run(args) => commands::run::run(&args),
        Command::Trial(args) => commands::trial::run(&args),
        Command::Proxy(args) => commands::proxy::run(&args),
        Command::Attach(args) => commands::attach::run(&args),
        Command::Detach(args) => commands::attach::detach(&args),
        Command::Policy(args) => commands::policy::run(&args),
        Command::Off(args) => commands::off::run(&args),
        Command::Bpf(args) => commands::bpf::run(&args),
        Command::Ctl(args) => commands::ctl::run(&args),
        Command::Top(args) => commands::top::run(&args),
        Command::Log(args) => commands::log::run(&args),
        Command::Send(args) => commands::send::run(&args, &ALCC),
        Command::Recv(args) => commands::recv::run(&args, &ALCC),
        Command::List(args) => commands::list::run(&args, &ALCC),
        Command::Doctor(args) => commands::doctor::run(&args),
    }
}

/// The product.
pub const ALCC: Program = Program {
    name: "alcc",
    algorithms: alcc_cc::Registry::builtin,
    transports: &alcc_carrier::TRANSPORTS,
    is_emulated: || false,
    hints: &[],
    idle: &[Idle {
        command: "top",
        options: &["--interval"],
        if_given: |given| given.has("--once"),
        what: "--once shows one table: leave one of the two out",
    }],
    elsewhere: &[
        "bundle",
        "compare",
        "demo",
        "emulate",
        "mdi",
        "reproduce",
        "sim",
        "sweep",
        "trace",
        "worst",
    ],
    other: "alcc-lab",
    other_transports: &["udp", "quic"],
};

/// The command line of the program.
pub fn command() -> clap::Command {
    Cli::command()
}

/// The program.
pub fn main() -> ExitCode {
    ALCC.main(|| match usage::parse::<Cli>(&ALCC, command()) {
        Ok(cli) => run(cli.command),
        Err(said) => said,
    })
}
