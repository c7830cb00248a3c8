// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Start and end of a proxy.
use crate::acceptor::{Acceptor, Stopper};
use crate::route::{Route, reaches_one_of};
use crate::stats::Stats;
use crate::worker::{Shared, Worker};
use crate::{Listen, ProxyProtocol, Target, Totals};
use alcc_cc::Registry;
use alcc_observe::Segment;
use alcc_socket::Selection;
use alcc_socket::own::{Runtime, Settings};
use std::io;
use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Descriptors that are not connections: standard streams, listeners, the loops' own, the segment,
/// a resolver at work.
const OTHER_DESCRIPTORS: u64 = 32;
const DESCRIPTORS_PER_LOOP: u64 = 4;

/// Configuration of a relay.
#[derive(Clone, Debug)]
pub struct Config {
    /// Listen addresses.
    pub listen: Vec<Listen>,
    /// The server.
    pub to: Target,
    /// The version of the PROXY header for the server, if any.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Number of loops, usually one per core.
    pub threads: NonZeroUsize,
    /// Listen backlog of each listening socket.
    pub backlog: i32,
    /// Connect timeout, for each address of the server.
    pub connect_timeout: Duration,
    /// Maximum time of silence on a connection.
    pub idle: Duration,
    /// Maximum number of connections of one client address (IPv6: of one /64 network); `None`: half
    /// of all.
    pub per_client: Option<NonZeroU64>,
    /// The connections to be controlled; the others are relayed as plain TCP.
    pub selection: Selection,
}

/// The reason why a proxy did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listening socket could not be opened.
    #[error("listen on {0}: {1}")]
    Listen(Listen, io::Error),
    /// The server's name has no address.
    #[error("look up {0}: {1}")]
    Resolve(Target, io::Error),
    /// The server is the proxy itself: a connection would loop until no descriptor is left.
    #[error("relay to {0}: the proxy itself listens there")]
    Itself(Target),
    /// The system lacks a resource.
    #[error("start the proxy: {0}")]
    System(#[from] io::Error),
}

/// Makes one runtime for each loop, so that no single thread sends for all. There is only one with
/// a log, which one thread must write, or with a shared allowance, which is in one runtime.
fn runtimes(
    loops: usize,
    settings: &Settings,
    registry: &Registry,
    segment: Option<&Arc<Segment>>,
) -> Vec<Arc<Runtime>> {
    let single = settings.log.is_some() || settings.share;
    let several = if single { 1 } else { loops };
    (0..several as u64)
        .map(|i| {
            let settings = Settings {
                seed: settings.seed ^ i.rotate_left(48),
                ..settings.clone()
            };
            Runtime::with_segment(settings, registry.clone(), segment.cloned())
        })
        .collect()
}

/// A running relay.
pub struct Proxy {
    shared: Arc<Shared>,
    runtimes: Vec<Arc<Runtime>>,
    addresses: Vec<SocketAddr>,
    stopper: Arc<Stopper>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    max_connections: u64,
}

impl Proxy {
    /// Opens the listeners, resolves the server's name (blocking) and starts the loops.
    ///
    /// Raises the process's limit of open descriptors to the hard limit. If the caller waits for
    /// signals, they should be blocked in the calling thread, because the threads inherit its mask.
    /// With `segment`, `alcc top` shows the connections and `alcc ctl` controls them.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(
        config: &Config,
        mut settings: Settings,
        registry: &Registry,
        segment: Option<&Arc<Segment>>,
    ) -> Result<Self, StartError> {
        let descriptors = alcc_sys::raise_descriptor_limit()?;
        let listeners = config
            .listen
            .iter()
            .map(|at| {
                at.open(config.backlog)
                    .map_err(|e| StartError::Listen(*at, e))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let addresses = listeners
            .iter()
            .map(std::net::TcpListener::local_addr)
            .collect::<io::Result<Vec<SocketAddr>>>()?;
        let to = config
            .to
            .addresses()
            .map_err(|e| StartError::Resolve(config.to.clone(), e))?;
        if to.iter().any(|server| reaches_one_of(&addresses, server)) {
            return Err(StartError::Itself(config.to.clone()));
        }
        let others = OTHER_DESCRIPTORS + config.threads.get() as u64 * DESCRIPTORS_PER_LOOP;
        let max_connections = (descriptors.saturating_sub(others) / 2).max(1);
        let shared = Arc::new(Shared {
            selection: config.selection.clone(),
            under: settings.under.take(),
            route: Arc::new(Route::new(config.to.clone(), to, addresses.clone())),
            stats: Stats::default(),
            proxy_protocol: config.proxy_protocol,
            connect_timeout: config.connect_timeout,
            idle: config.idle,
            clients: Mutex::default(),
            per_client: config
                .per_client
                .map_or_else(|| (max_connections / 2).max(1), NonZeroU64::get),
            segment: segment.cloned(),
        });
        let runtimes = runtimes(config.threads.get(), &settings, registry, segment);
        let workers = runtimes
            .iter()
            .cycle()
            .take(config.threads.get())
            .map(|runtime| Worker::new(Arc::clone(&shared), Arc::clone(runtime)))
            .collect::<io::Result<Vec<_>>>()?;
        let loops: Vec<_> = workers.iter().map(Worker::inbox).collect();
        let mut acceptor = Acceptor::new(listeners, Arc::clone(&shared), loops, max_connections)?;
        let stopper = acceptor.stopper();
        let mut threads = vec![spawn("acceptor", Arc::clone(&stopper), move || {
            acceptor.run()
        })?];
        for (i, mut worker) in workers.into_iter().enumerate() {
            let stopper = Arc::clone(&stopper);
            threads.push(spawn(&format!("loop {i}"), stopper, move || worker.run())?);
        }
        Ok(Self {
            shared,
            runtimes,
            addresses,
            stopper,
            threads,
            max_connections,
        })
    }

    /// The listen addresses, with the ports that were chosen.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Maximum number of connections at a time: each takes two descriptors. More wait in the
    /// kernel's backlog.
    pub fn max_connections(&self) -> u64 {
        self.max_connections
    }

    /// The current counters.
    pub fn totals(&self) -> Totals {
        self.shared.stats.totals(&self.runtimes)
    }

    /// The handle that ends the proxy.
    pub fn stopper(&self) -> Arc<Stopper> {
        Arc::clone(&self.stopper)
    }

    /// Waits until the proxy was stopped and its connections have ended. Returns the final
    /// counters.
    ///
    /// # Errors
    /// A thread failed, which ends the others too: a bug, or a lack of kernel memory.
    pub fn join(self) -> io::Result<Totals> {
        let ended: Vec<_> = self.threads.into_iter().map(JoinHandle::join).collect();
        for result in ended {
            result
                .map_err(|_| io::Error::other("a thread of the proxy failed: internal error"))??;
        }
        Ok(self.shared.stats.totals(&self.runtimes))
    }
}

/// Starts a thread. If it fails, the others end too, because connections of a loop that is gone
/// would wait forever.
fn spawn(
    name: &str,
    stopper: Arc<Stopper>,
    run: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<JoinHandle<io::Result<()>>> {
    struct Alarm(Option<Arc<Stopper>>);
    impl Drop for Alarm {
        fn drop(&mut self) {
            if let Some(stopper) = &self.0 {
                stopper.stop(Duration::ZERO);
            }
        }
    }
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let mut alarm = Alarm(Some(stopper));
            run().inspect(|()| alarm.0 = None)
        })
}
