// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of a running server: its program, and ways to control its connections without a restart.
use super::{Finding, State, program};
use crate::commands::attach::unit_of;
use crate::holders::{holders, processes};
use crate::shared;
use alcc_sys::Sockets;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Checks the processes that listen on this port of this network namespace.
pub(crate) fn at_port(port: u16) -> Vec<Finding> {
    let sockets = Sockets::open().and_then(|mut sockets| sockets.dump());
    let listening = sockets.into_iter().flatten();
    let wanted: BTreeMap<u64, ()> = listening
        .filter(|socket| socket.listens && socket.local.port() == port)
        .map(|socket| (u64::from(socket.inode), ()))
        .collect();
    let found = if wanted.is_empty() {
        format!("nothing listens on port {port}")
    } else {
        let pids = holders(&wanted, processes()).into_values().flatten();
        let pids: BTreeSet<u32> = pids.map(|holder| holder.pid).collect();
        if let Some(first) = pids.first() {
            return server(*first, &format!("--port {port} --future"));
        }
        format!("another user's process listens on port {port}")
    };
    let means = "compare with 'ss -tlnp'; a process of another network namespace is named by --pid";
    vec![Finding::new("running", State::Note, found, means)]
}

/// Checks this process.
pub(crate) fn process(pid: u32) -> Vec<Finding> {
    let cgroup = alcc_bpf::cgroup_of(pid);
    // What listens hands its control on anyway.
    let ends = cgroup.is_some_and(|cgroup| unit_of(&cgroup).is_some());
    let future = if ends { "" } else { " --future" };
    server(pid, &format!("--pid {pid}{future}"))
}

fn server(pid: u32, which: &str) -> Vec<Finding> {
    let Ok(name) = fs::read_to_string(format!("/proc/{pid}/comm")) else {
        let means = "check the number";
        return vec![Finding::new(
            "running",
            State::Note,
            format!("there is no process {pid}"),
            means,
        )];
    };
    let found = format!("{} (process {pid})", name.trim());
    if shared::of(pid).is_some() {
        let means = "it is under alcc already: see 'alcc top'";
        return vec![Finding::new("running", State::Ok, found, means)];
    }
    let load = if alcc_bpf::loaded().is_empty() {
        "sudo alcc bpf load && "
    } else {
        ""
    };
    let running = Finding::new(
        "running",
        State::Note,
        found,
        "it runs as it is: the kernel can control its connections without a restart; 'alcc run' needs one",
    )
    .helped_by(format!("{load}sudo alcc attach {which}"));
    // What 'alcc run' could do after a restart.
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let program = program.map(|path| program::examine(&[path.into_os_string()]));
    std::iter::once(running)
        .chain(program.into_iter().flatten())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_runs_is_named_with_the_command_that_attaches_it() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let found = at_port(port);
        let pid = format!("(process {})", std::process::id());
        assert!(found[0].found.ends_with(&pid), "{found:?}");
        let command = found[0].command.as_deref().unwrap();
        let end = format!("sudo alcc attach --port {port} --future");
        assert!(command.ends_with(&end), "{command}");
        assert_eq!(found[1].what, "program");
        drop(socket);
        assert!(at_port(port)[0].found.starts_with("nothing listens"));
        let nobody = process(999_999_999);
        assert_eq!(nobody[0].found, "there is no process 999999999");
    }
}
