// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::chosen::Options;
use crate::http::Place;
use crate::json_out::JsonOut;
use std::path::PathBuf;

// What commands that serve for weeks have in common: 'alcc run', 'alcc trial' and 'alcc proxy'. No
// doc comment: it would become the command's help.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Service {
    #[command(flatten)]
    pub(crate) choice: Options,
    /// Seed of the algorithms' random numbers
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write logs into this folder
    ///
    /// They are a CSV file per process, with a line for each reading of a connection (its TCP_INFO,
    /// about every 5 ms while something is in flight), and events.jsonl with the algorithms' events
    /// (end of slow start, modes, reductions).
    #[arg(long, value_name = "DIR")]
    pub(crate) log: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: JsonOut,
    /// Serve Prometheus metrics at this address or Unix socket
    ///
    /// Such as 127.0.0.1:9101, :9101 or /run/alcc.sock.
    #[arg(long, value_name = "ADDRESS|PATH")]
    pub(crate) metrics: Option<Place>,
    /// For tests: let alcc's thread in each process fail after this many readings
    #[arg(long, value_name = "N", hide = true)]
    pub(crate) fault: Option<u64>,
    /// Print nothing on standard error
    #[arg(long)]
    pub(crate) quiet: bool,
}
