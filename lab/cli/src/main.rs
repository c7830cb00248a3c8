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
mod about;
mod changes_arg;
mod commands;
mod completion;
#[cfg(test)]
mod docs_tests;
mod figure_arg;
mod interval_arg;
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

/// The laboratory of alcc: simulates, emulates and compares congestion control, and reproduces
/// published experiments.
#[derive(Parser)]
#[command(
    name = "alcc-lab",
    version,
    max_term_width = 100,
    after_help = "To begin: 'alcc-lab demo' compares plain nginx with nginx under alcc, on an emulated LTE link; 'alcc-lab sim' simulates.\n\nExit status: 0 success, 1 a check or a transfer failed, 2 wrong usage or a missing requirement. Commands that run a program return its exit status."
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

/// All algorithms of the laboratory.
fn algorithms() -> Registry {
    alcc_zoo::registry()
}

/// Names and functions of this program, for the commands that it shares with `alcc`.
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

/// The command line of the program. Commands that `alcc` has, too, get the texts and values that differ.
fn command_line() -> clap::Command {
    let names = product::send::names(LAB.transports);
    let usual = product::send::default_name(LAB.transports);
    let with_transports = |command: clap::Command| {
        command
            .mut_arg("transport", |arg| arg.value_parser(names.clone()).default_value(usual))
            .mut_arg("insecure", |arg| {
                let short = "Permit any certificate, and udp beyond this machine";
                arg.help(short).long_help(format!("{short}\n\nWith TLS and quic, the sender accepts any certificate. udp is not encrypted, so it needs this option to cross a real network."))
            })
    };
    Cli::command()
        .mut_subcommand("send", |send| {
            let about = "Send a file or generated data to 'alcc-lab recv' on another host";
            let cc = "Algorithm with its options, see 'alcc-lab list' [default: none]";
            let examples = "Examples:\n  alcc-lab send --cc verus 192.0.2.7\n  alcc-lab send --transport quic --cc copa --pin FINGERPRINT 192.0.2.7\n  alcc-lab send --transport udp --cc verus --insecure 192.0.2.7\n\nOn the other host, with the same --transport:\n  alcc-lab recv --once";
            with_transports(send)
                .about(about)
                .long_about(format!("{about}\n\nThe same as 'alcc send', but also over UDP and QUIC."))
                .mut_arg("to", |arg| arg.help("Address of 'alcc-lab recv': HOST or HOST:PORT"))
                .mut_arg("cc", |arg| arg.help(cc).long_help(format!("{cc}\n\nWithout one, the kernel or the QUIC stack decides alone. The transports udp and in-band require one.")))
                .after_help(examples)
                .after_long_help(examples)
        })
        .mut_subcommand("recv", |recv| {
            let about = "Receive transfers from 'alcc-lab send'";
            let examples = "Examples:\n  alcc-lab recv --transport quic --cert cert.pem --key key.pem\n  alcc-lab recv --transport udp --insecure\n\nOn the other host:\n  alcc-lab send --file video.mp4 192.0.2.7";
            with_transports(recv)
                .about(about)
                .long_about(format!("{about}\n\nThe same as 'alcc recv', but also over UDP and QUIC."))
                .after_help(examples)
                .after_long_help(examples)
        })
        .mut_subcommand("list", |list| {
            let about = "List algorithms, queues, radio links, synthetic links, experiments and transports";
            list.about(about)
                .long_about(format!("{about}\n\nWith NAME, shows the details of everything with this name: options, profiles, titles."))
                .after_help("Examples:\n  alcc-lab list\n  alcc-lab list verus codel")
        })
}

fn main() -> ExitCode {
    LAB.main(|| match usage::parse::<Cli>(&LAB, command_line()) {
        Ok(cli) => run(cli.command),
        Err(said) => said,
    })
}
