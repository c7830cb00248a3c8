// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab emulate`: a program behind an emulated link.
mod args;
pub(crate) mod internet;
mod place;
pub(crate) mod processes;
mod profile;
mod summary;
mod switches;
mod watch;

use crate::failure::{Failure, reason};
use crate::output::{Product, note, will_be_written};
use alcc_emu::{EmuError, Emulator, Namespace, PacketLog, PathSpec};
use alcc_results::About;
pub(crate) use args::Args;
use internet::{Before, Internet};
use place::Place;
use processes::{Half, Processes};
use std::process::{Command, ExitCode};

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let spec = args.path_spec()?;
    let json = Product::named(args.json.path())?;
    for (_, file, _) in args.log_files() {
        will_be_written(&file)?;
    }
    let place = Place::find()?;
    let before = args.internet.then(Before::look);
    // Before the first thread: one that does not block SIGCHLD too would swallow it.
    let processes = match Processes::guarded()? {
        Half::Working(processes) => processes,
        Half::Guard(exit) => {
            before.iter().for_each(Before::restore);
            return Ok(ExitCode::from(exit.status()));
        }
    };
    // With --internet it is an error, which says so itself.
    if !place.shared && !args.quiet && !args.internet {
        let hint = match place.is_nested() {
            true => "the link around it; links nest if this command itself is CMD of the outer one",
            false => "this machine's",
        };
        note(format_args!(
            "alcc-lab emulate: no privileges here: the other end of the link is an empty network, not {hint}"
        ));
    }
    let inside = Namespace::new().map_err(Failure::usage)?;
    processes.watch(&inside);
    // The sums of large traces take a while.
    let is_told = json.is_some() || args.log_files().next().is_some();
    let about = match is_told {
        true => args.about(),
        false => About::default(),
    };
    let (link, log) = start(args, &place, &inside, &spec, &about)?;

    let own = (link.outside_addr(), link.subnet().outside6());
    let addresses = match &args.outside {
        Some(_) => own,
        None => place.far_end.unwrap_or(own),
    };
    let mut environment = place.environment(&link, addresses);
    if let Some(at) = args.control {
        let ends = [&place.outside, &inside];
        let url = switches::serve(at, ends, link.control(), &spec, args.link_names())?;
        // Others than CMD may be meant to change the link, too.
        if !args.quiet {
            note(format_args!("alcc-lab emulate: --control {url}"));
        }
        environment.push(("ALCC_CONTROL", url));
    }
    let mut internet = before
        .map(|before| Internet::open(&place, &link, &args.dns, before))
        .transpose()?;
    let server = match &args.outside {
        Some(line) => {
            let mut shell = Command::new("sh");
            shell
                .args(["-c", line])
                .env("ALCC_INSIDE", link.inside_addr().to_string())
                .envs(inside.id().map(|id| (watch::LINK, id)));
            Some(processes.start_server(&place.outside, shell)?)
        }
        None => None,
    };
    let (program, rest) = args
        .command
        .split_first()
        .ok_or_else(|| Failure::usage("no program to run: write it after --"))?;
    let mut command = Command::new(program);
    command.args(rest).envs(environment);
    if let Some(internet) = &internet {
        internet.name_for(&mut command)?;
    }
    let exit = processes.start_command(&inside, command).and_then(|child| {
        internet.iter_mut().for_each(Internet::forget_names);
        processes.wait(child, server)
    });
    processes.end(server);
    drop(internet);
    let exit = exit?;

    // CMD has its exit status, whatever happens from here on.
    match link.stop() {
        Ok(report) => {
            if !args.quiet {
                note(summary::text(&report).trim_end());
            }
            if let Some(file) = json {
                let json = summary::json(args, &about, &spec, &report, exit);
                file.report(format_args!("{json:#}"));
            }
        }
        Err(why) => say(&why),
    }
    if let Some(Err(why)) = log.map(PacketLog::finish) {
        say(&why);
    }
    Ok(ExitCode::from(exit.status()))
}

fn say(why: &EmuError) {
    note(format_args!("alcc-lab: {}", told(why)));
}

/// One line, with what would mend it where that is known.
fn told(why: &EmuError) -> String {
    match why {
        EmuError::Os { attempt, source } => format!("{attempt}: {}", reason(source)),
        why => why.to_string(),
    }
}

fn start(
    args: &Args,
    place: &Place,
    inside: &Namespace,
    spec: &PathSpec,
    about: &About,
) -> Result<(Emulator, Option<PacketLog>), Failure> {
    let mut refused = None;
    for net in place.subnets() {
        let (log, observer) = args.observer(spec, about)?;
        match Emulator::start(&place.outside, inside, net, spec.clone(), observer) {
            Ok(link) => return Ok((link, log)),
            Err(e @ EmuError::SubnetTaken { .. }) => refused = Some(e),
            Err(e) => return Err(Failure::usage(e)),
        }
    }
    Err(refused.map_or_else(
        || Failure::usage("nest an emulated link in one that shares its network with others: not supported; nest the others in it instead"),
        Failure::usage,
    ))
}
