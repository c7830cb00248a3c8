// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_live::cpu;
use std::fs;

/// CPU time and context switches of some threads of a server.
#[derive(Clone, Copy, Default)]
pub(crate) struct Did {
    /// CPU time, s.
    pub(crate) cpu: f64,
    /// Number of times that they went to sleep: each time they had been woken.
    pub(crate) sleeps: u64,
}

/// The runtime's threads below `root`, and all others. `None` if the runtime has none.
pub(crate) fn did(root: u32) -> (Option<Did>, Did) {
    let (mut runtime, mut others) = (None, Did::default());
    for process in cpu::tree(root) {
        let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
            continue;
        };
        for thread in threads.flatten() {
            let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
            let (status, ran) = (read("status"), read("schedstat"));
            let field = |name| {
                status
                    .lines()
                    .find_map(|l| l.strip_prefix(name))
                    .map(str::trim)
            };
            // The supervisor's only thread is called alcc as well.
            let is_main = thread.file_name().to_str() == Some(&process.to_string());
            let into = if field("Name:") == Some("alcc") && !is_main {
                runtime.get_or_insert_default()
            } else {
                &mut others
            };
            let number = |text: Option<&str>| text.and_then(|t| t.parse::<u64>().ok()).unwrap_or(0);
            into.cpu += number(ran.split(' ').next()) as f64 * 1e-9;
            into.sleeps += number(field("voluntary_ctxt_switches:"));
        }
    }
    (runtime, others)
}
