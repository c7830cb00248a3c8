// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc attach` with an algorithm that has no form in the kernel: this process steers the
//! connections by `alcc_window` while it runs. If it dies, the kernel takes the connections back.
use super::matching::{Matching, found};
use super::{Args, show, what};
use crate::commands::bpf::failure;
use crate::failure::Failure;
use crate::holders::Holder;
use crate::output::note;
use crate::progress::stop_flag;
use crate::runs::enter;
use crate::wording::count;
use alcc_bpf::{BpfError, Found, RESIDENT, Selection};
use alcc_cc::Registry;
use alcc_socket::others::{Holder as Held, Known, Others, TakeError};
use alcc_sys::TcpSocket;
use alcc_sys::{Process, WINDOW_CONTROL, raise_descriptor_limit};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Interval of the search for new connections, and for old ones that send again. It is longer if the
/// search takes more than this share of the time.
const LOOK: Duration = Duration::from_millis(100);
const RATIO: u32 = 20;
/// Time after which a refused socket is requested again.
const AGAIN: Duration = Duration::from_secs(2);

pub(super) fn run(
    args: &Args,
    registry: Registry,
    selection: &Selection,
) -> Result<ExitCode, Failure> {
    let cc = &args.algorithm;
    let stop = stop_flag()?;
    // A descriptor for each process, of which a server may have as many as connections.
    // With fewer some connections stay as they are.
    let _ = raise_descriptor_limit();
    let (_entry, segment) = enter("attach", &what(args, &cc.to_string()))?;
    let others = Others::start(cc.clone(), registry, Some(Arc::new(segment)));
    let others = others.map_err(|e| unable(args, &e))?;
    // What exists: as selected. What comes: of the whole cgroup, as with a control of the kernel.
    let later = match args.future && selection.pid.is_some() {
        true => Selection {
            pid: None,
            cgroup: Some(args.which.cgroup()?),
            ..selection.clone()
        },
        false => selection.clone(),
    };
    let mut steering = Steering {
        others: Arc::clone(&others),
        refused: BTreeMap::new(),
        processes: BTreeMap::new(),
    };
    let all = (steering.look(&mut Matching::new(selection), true)).map_err(failure)?;
    show(&all, &format!("controlled by {cc}"), None, args.json)?;
    let refused = all.iter().find_map(|f| f.error.as_ref());
    if !args.future && others.count() == 0 {
        return Err(Failure::failed(match refused {
            Some(why) => format!("control connections by {cc}: {why}"),
            None => super::NO_MATCH.to_owned(),
        }));
    }
    if let Some(why) = refused {
        note(format_args!(
            "alcc: some connections stay as they are: {why}"
        ));
    }
    let resident = RESIDENT.iter().find(|r| r.algorithm == cc.name);
    let lacks = resident.map(|r| format!("{} has no such options, so ", r.control.name));
    note(format_args!(
        "alcc: {}{cc} runs in this process until Ctrl-C; then the connections get back their earlier congestion control",
        lacks.unwrap_or_default()
    ));
    let ended = steering.until(&stop, &mut Matching::new(&later), args.future);
    let back = others.give_back();
    note(format_args!(
        "alcc: {} given back",
        count(back as u64, "connection")
    ));
    ended.map_err(failure)?;
    Ok(ExitCode::SUCCESS)
}

fn unable(args: &Args, why: &io::Error) -> Failure {
    let cc = &args.algorithm;
    let why = match why.kind() {
        ErrorKind::NotFound => format!(
            "it runs in user space and needs {WINDOW_CONTROL} in the kernel: run 'alcc bpf load' first"
        ),
        ErrorKind::PermissionDenied => {
            "it runs in user space and controls other programs' sockets: run it as root".to_owned()
        }
        _ => why.to_string(),
    };
    Failure::usage(format!("attach --cc {cc}: {why}"))
}

struct Steering {
    others: Arc<Others>,
    /// Refused sockets by cookie, with the time of the next request.
    refused: BTreeMap<u64, Instant>,
    /// One descriptor for each process.
    processes: BTreeMap<u32, Weak<Process>>,
}

impl Steering {
    /// Steers until the end is requested, or nothing remains to steer.
    fn until(
        &mut self,
        stop: &AtomicBool,
        matching: &mut Matching<'_>,
        future: bool,
    ) -> Result<(), BpfError> {
        let mut pause = LOOK;
        loop {
            let end = Instant::now() + pause;
            while !stop.load(Ordering::Relaxed) && Instant::now() < end {
                std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let began = Instant::now();
            match self.look(matching, future) {
                // With it everything that was steered has ended. What was to come would not be.
                Err(gone) if gone.is_gone() && !future => return Ok(()),
                looked => drop(looked?),
            }
            if !future && self.others.count() == 0 {
                return Ok(());
            }
            pause = LOOK.max(began.elapsed() * RATIO);
        }
    }

    /// One search. `new`: connections that were not there before are taken over as well.
    fn look(&mut self, matching: &mut Matching<'_>, new: bool) -> Result<Vec<Found>, BpfError> {
        let look = matching.look()?;
        self.others.keep(&look.there);
        self.processes
            .retain(|_, process| process.strong_count() > 0);
        let now = Instant::now();
        self.refused
            .retain(|cookie, until| *until > now && look.there.contains(cookie));
        let is_wanted = |s: &&TcpSocket| match self.others.see(s.cookie, s.sent) {
            Known::Yes => false,
            Known::Moved => true,
            Known::No => new && !self.refused.contains_key(&s.cookie),
        };
        let connections = look.sockets.iter().filter(|s| !s.listens);
        let wanted: Vec<_> = connections.filter(is_wanted).copied().collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let holders = look.holders(&wanted);
        let mut all = Vec::new();
        for socket in &wanted {
            let holders = holders.get(&u64::from(socket.inode));
            let taken = (holders.into_iter().flatten())
                .map(|holder| self.take(*holder, socket.cookie))
                .find(|taken| !matches!(taken, Err(TakeError::Gone)));
            // Not available: it belongs to another process, is being passed on, or is closed.
            let why = taken.unwrap_or(Err(TakeError::Gone)).err();
            if why.is_some() {
                self.refused.insert(socket.cookie, now + AGAIN);
            }
            if matches!(why, Some(TakeError::Gone)) {
                continue;
            }
            all.push(found(socket, why.map(|why| why.to_string())));
        }
        Ok(all)
    }

    fn take(&mut self, holder: Holder, cookie: u64) -> Result<(), TakeError> {
        let known = self.processes.get(&holder.pid).and_then(Weak::upgrade);
        let process = match known {
            Some(process) => process,
            None => Arc::new(Process::open(holder.pid).map_err(|_| TakeError::Gone)?),
        };
        self.processes.insert(holder.pid, Arc::downgrade(&process));
        let fd = holder.fd;
        self.others
            .take(Held { process, fd }, cookie)
            .map(drop)
            .inspect_err(|_| {
                // The number may be another process's by now.
                self.processes.remove(&holder.pid);
            })
    }
}
