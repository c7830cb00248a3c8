// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface of a sender and its receiver in a run. They are an nginx and a curl, or two
//! threads with a transport between them.
use super::bulk::Bulk;
use super::datagrams::Datagrams;
use super::web::Web;
use crate::LabError;
use crate::cpu::Work;
use crate::scheme::Scheme;
use crate::tools::Tools;
use crate::transports::TRANSPORTS;
use alcc_emu::{FlowKey, Namespace};
use alcc_results::Row;
use alcc_units::Time;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Instant;

/// The two ends of a link. Data go from the first to the second.
#[derive(Clone)]
pub(crate) struct Namespaces {
    /// Namespace of the sender.
    pub(crate) sender: Namespace,
    /// Namespace of the receiver.
    pub(crate) receiver: Namespace,
}

impl Namespaces {
    /// Two new ones, with nothing between them.
    pub(crate) fn new() -> Result<Self, LabError> {
        Ok(Self {
            sender: Namespace::new()?,
            receiver: Namespace::new()?,
        })
    }
}

/// Environment of a run: place and tools.
pub(super) struct RunContext<'a> {
    pub(super) ends: &'a Namespaces,
    pub(super) tools: &'a Tools,
    /// The scheme's own folder, which exists.
    pub(super) folder: &'a Path,
    /// Folder of the files that a server serves.
    pub(super) files: &'a Path,
    /// Folder for the runtime's samples.
    pub(super) log: Option<&'a Path>,
    /// Number among those that share a link.
    pub(super) number: u16,
    /// All of them are on one link.
    pub(super) is_shared: bool,
}

/// The link, once it is there.
#[derive(Clone, Copy)]
pub(super) struct Addresses {
    /// The sender's address.
    pub(super) from: Ipv4Addr,
    /// The receiver's.
    pub(super) to: Ipv4Addr,
    /// The zero of the link's clock.
    pub(super) origin: Instant,
}

/// A sender and a receiver, of which one connects to the other. Dropped, they have ended.
///
/// An error that [`LabError::is_environment`] ends the whole run, any other this one.
pub(super) trait Programs {
    /// The link is there: what has to be set up on it before anyone connects.
    fn prepare(&mut self, addresses: Addresses) -> Result<(), LabError>;
    /// Starts the program that connects.
    fn start_client(&mut self) -> Result<(), LabError>;
    /// Stops it before the end.
    fn stop_client(&mut self);
    /// Samples the connection, each [`crate::sampler::PERIOD`].
    fn observe(&mut self, now: Time);
    /// Checks both about once per second until the window has passed, which `is_over` reports.
    fn check(&mut self, is_over: bool) -> Result<(), LabError>;
    /// CPU time of the sender so far, with all processes and threads that work for it; `None` if
    /// unknown.
    fn work(&self) -> Option<Work>;
    /// True if this flow on a shared link belongs to them.
    fn owns(&self, flow: &FlowKey) -> bool;
    /// Ends both.
    fn end(&mut self);
    /// Their results for `window`, after their end.
    fn results(
        &mut self,
        window: [Time; 2],
        row: &mut Row,
        notes: &mut Vec<String>,
    ) -> Result<(), LabError>;
}

/// Those of a scheme, of which the one that is connected to waits.
pub(super) fn start(
    scheme: &Scheme,
    context: &RunContext<'_>,
) -> Result<Box<dyn Programs>, LabError> {
    if let Some(constant) = scheme.constant {
        return Ok(Box::new(Datagrams::start(scheme, constant, context)));
    }
    let Some(row) = scheme.transport else {
        return Ok(Box::new(Web::start(scheme, context)?));
    };
    let transport = TRANSPORTS
        .find(row.name)
        .map_err(|why| scheme.unfit(why.to_string()))?;
    Ok(Box::new(Bulk::start(scheme, transport, context)?))
}
