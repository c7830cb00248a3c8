// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::{attach, bpf, ctl, policy};
use crate::failure::Failure;
use crate::output::{note, print};
use crate::wording::count;
use alcc_bpf::{BpfError, Selection};
use std::process::ExitCode;

/// Stop all of alcc's control on this machine: all connections are plain TCP again
///
/// Ends the policy and the selections of 'alcc attach', gives each connection its earlier congestion
/// control back, and switches every 'alcc run', 'alcc proxy' and program with the C library off. No
/// connection is closed. The congestion controls of 'alcc bpf load' stay registered until 'alcc bpf
/// unload'. Without root it applies only to the user's own runs.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sudo alcc off")]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args) -> Result<ExitCode, Failure> {
    // Each part regardless of failures of the others, because this is for emergencies. The kernel first: the search
    // for runs looks at each process, and one of another user may make that last.
    let kernel = in_the_kernel();
    let runs = ctl::off();
    match (runs, kernel) {
        (Err(why), Err(also)) => {
            note(format_args!("alcc: {why}"));
            Err(also)
        }
        (Err(why), _) | (_, Err(why)) => Err(why),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn in_the_kernel() -> Result<(), Failure> {
    if !nix::unistd::geteuid().is_root() {
        note(format_args!(
            "alcc: what root has chosen in the kernel stays: run it as root to end that, too"
        ));
        return Ok(());
    }
    // A machine that cannot load programs has none in force.
    if let Err(BpfError::NotBuilt | BpfError::NoBtf | BpfError::NoJit) =
        alcc_bpf::survey(&Selection::default())
    {
        return Ok(());
    }
    // Each of them is tried, whatever became of the others.
    let policy = policy::roll_back();
    let futures = alcc_bpf::end_futures(|_| true).map_err(bpf::failure);
    let back = attach::give_all_back();
    if let Ok(Some(_)) = policy {
        print("the policy has ended\n")?;
    }
    for choice in futures.iter().flatten() {
        print(format_args!("ended for future connections: {choice}\n"))?;
    }
    if let Ok(back @ 1..) = back {
        let sockets = count(back as u64, "socket");
        print(format_args!("{sockets} given back\n"))?;
    }
    policy::note_registered();
    policy?;
    futures?;
    back.map(drop)
}
