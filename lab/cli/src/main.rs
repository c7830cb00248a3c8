// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `alcc-lab` program. A command is one file in `commands/` and one line in [`Command`].
#![cfg_attr(
    not(test),
    deny(
        clippy::print_stdout,
        clippy::print_stderr,
        clippy::dbg_macro,
        reason = "they panic when nobody reads: use output.rs"
    )
)]
mod changes_arg;
mod commands;
mod completion;
#[cfg(test)]
mod docs_tests;
mod figure_arg;
mod manual;
mod mistakes;
mod numbers;
#[cfg(test)]
mod remedies_tests;
mod trace_arg;

use alcc_cc::Registry;
use alcc_cli::commands as product;
use alcc_cli::program::Program;
use alcc_cli::{failure, handover, http, json_out, output, plugin_arg, progress, supervise, usage};
use clap::{CommandFactory, Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// The laboratory of alcc: simulate, emulate and compare congestion control, and reproduce what
/// papers say.
#[derive(Parser)]
#[command(
    name = "alcc-lab",
    version,
    max_term_width = 100,
    after_help = "To begin: 'alcc-lab demo' compares nginx plainly and under alcc, on an emulated LTE link, 'alcc-lab sim' simulates.\n\nExit status: 0 done, 1 a check or transfer failed, 2 bad usage or the machine cannot do it. Commands that run a program return its status."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(commands::demo::Args),
    Sim(Box<commands::sim::Args>),
    Emulate(commands::emulate::Args),
    Compare(Box<commands::compare::Args>),
    Bundle(commands::bundle::Args),
    Reproduce(commands::reproduce::Args),
    Sweep(Box<commands::sweep::Args>),
    Worst(commands::worst::Args),
    Trace(commands::trace::Args),
    Mdi(commands::mdi::Args),
    Send(product::send::Args),
    Recv(product::recv::Args),
    List(product::list::Args),
    #[command(hide = true)]
    Generate(commands::generate::Args),
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Demo(args) => commands::demo::run(&args),
        Command::Sim(args) => commands::sim::run(&args),
        Command::Emulate(args) => commands::emulate::run(&args),
        Command::Compare(args) => commands::compare::run(&args),
        Command::Bundle(args) => commands::bundle::run(&args),
        Command::Reproduce(args) => commands::reproduce::run(&args),
        Command::Sweep(args) => commands::sweep::run(&args),
        Command::Worst(args) => commands::worst::run(&args),
        Command::Trace(args) => commands::trace::run(&args),
        Command::Mdi(args) => commands::mdi::run(&args),
        Command::Send(args) => product::send::run(&args, &LAB),
        Command::Recv(args) => product::recv::run(&args, &LAB),
        Command::List(args) => commands::list::run(&args),
        Command::Generate(args) => commands::generate::run(&args),
    }
}

/// The algorithms of the laboratory.
fn algorithms() -> Registry {
    alcc_zoo::registry()
}

/// The laboratory.
const LAB: Program = Program {
    name: "alcc-lab",
    algorithms,
    transports: &alcc_live::TRANSPORTS,
    is_emulated: alcc_emu::is_emulated,
    hints: mistakes::HINTS,
    idle: mistakes::IDLE,
    elsewhere: &[
        "attach", "bpf", "ctl", "detach", "doctor", "log", "off", "policy", "proxy", "run", "top",
        "trial",
    ],
    other: "alcc",
    other_transports: &[],
};

/// The command line of the program: of the commands that the product has, too, what differs.
fn command_line() -> clap::Command {
    let names = product::send::names(LAB.transports);
    let usual = product::send::default_name(LAB.transports);
    let with_transports = |command: clap::Command| {
        command
            .mut_arg("transport", |arg| arg.value_parser(names.clone()).default_value(usual))
            .mut_arg("insecure", |arg| arg.help("udp: cross a real network although nothing is encrypted; with TLS and quic: send to a receiver with any certificate"))
    };
    Cli::command()
        .mut_subcommand("send", |send| {
            with_transports(send)
                .about("Send a file, or as much as the link carries, to 'alcc-lab recv' on another host")
                .long_about("Send a file, or as much as the link carries, to 'alcc-lab recv' on another host\n\nAs 'alcc send', and over UDP and QUIC.")
                .mut_arg("to", |arg| arg.help("Where 'alcc-lab recv' waits: name or address, with :PORT if it is not --port"))
                .mut_arg("cc", |arg| arg.help("Algorithm that decides how much may leave, see 'alcc-lab list'; udp and in-band need one [default: none, the QUIC stack or the kernel decides]"))
                .after_help("Examples:\n  alcc-lab send --cc verus 192.0.2.7\n  alcc-lab send --transport quic --cc copa --pin FINGERPRINT 192.0.2.7\n  alcc-lab send --transport udp --cc verus --insecure 192.0.2.7\n\nOn the other host, with the same --transport:\n  alcc-lab recv --once")
        })
        .mut_subcommand("recv", |recv| {
            with_transports(recv)
                .about("Receive what 'alcc-lab send' sends")
                .long_about("Receive what 'alcc-lab send' sends\n\nAs 'alcc recv', and over UDP and QUIC.")
                .after_help("Examples:\n  alcc-lab recv --transport quic --cert cert.pem --key key.pem\n  alcc-lab recv --transport udp --insecure\n\nOn the other host:\n  alcc-lab send --file video.mp4 192.0.2.7")
        })
        .mut_subcommand("list", |list| {
            list.about("Show algorithms, queues, radio links, synthetic links, experiments and transports")
                .after_help("Example:\n  alcc-lab list")
        })
}

fn main() -> ExitCode {
    LAB.main(|| match usage::parse::<Cli>(&LAB, command_line()) {
        Ok(cli) => run(cli.command),
        Err(said) => said,
    })
}
