// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `alcc-lab trace record`.
use crate::failure::Failure;
use alcc_pipe::{Target, cleartext};
use alcc_record::plan::{IPV4_OVERHEAD, IPV6_OVERHEAD};
use alcc_record::{Load, Mode, Plan};
use alcc_units::{Bytes, Rate, Span, positive};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

/// Default port, next to that of `alcc recv`.
const PORT: u16 = 9701;

/// Measure a real channel between two hosts and record its traces
///
/// One host listens, the other one names it. Both send and record at the same time, and both write
/// traces of both directions, the one-way delay of every packet, and a summary. Down is towards the
/// host that named the other.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:
  alcc-lab trace record --listen :9701 --insecure               # on one host
  alcc-lab trace record server.example --insecure --out walk    # on the other",
    after_long_help = "Modes:
  saturate  keeps both queues full, so that arrivals show the capacity of the channel (as Sprout's
            saturator does)
  constant  sends at constant rates: --down 5mbit --up 2500kbit in packets of 1400 bytes
  probe     sends a packet every 0.4 ms in each direction (472 bytes: 10 Mbit/s)

Rates count IP bytes. A line of a trace is 1500 IP bytes, the size of the saturator's packets.
Nothing is encrypted: beyond this machine, both hosts need --insecure.

Examples:
  alcc-lab trace record --listen :9701 --insecure                  # on one host
  alcc-lab trace record server.example --insecure --out walk       # on the other
  alcc-lab trace record server.example --insecure --mode constant --down 5mbit --up 2500kbit
  alcc-lab trace record --listen :9701 --insecure --together 2 --count 2   # two receivers at once:
  alcc-lab trace record server.example --insecure --label phone1 --out phone1   # and phone2
  alcc-lab trace combine phone1/down.trace phone2/down.trace --output sum.trace"
)]
pub(crate) struct Args {
    /// Host that listens: name or address, with :PORT if it is not 9701
    #[arg(
        value_name = "HOST",
        required_unless_present = "listen",
        conflicts_with = "listen"
    )]
    pub(super) host: Option<String>,
    /// Wait for the other host at this address [default: :9701]
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = ":9701")]
    listen: Option<String>,
    /// Method: saturate, constant or probe, see --help
    #[arg(long, value_parser = mode, default_value = "saturate", value_name = "MODE")]
    mode: Mode,
    /// Length of the recording, without the warm-up
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = positive::<Span>)]
    duration: Span,
    /// Time to fill the queues before the recording [default: 10s]
    ///
    /// With constant and probe the default is 1s.
    #[arg(long, hide_short_help = true, value_name = "TIME")]
    warm_up: Option<Span>,
    /// Rate towards this host, for constant
    ///
    /// In every mode, 0bit sends nothing in this direction.
    #[arg(long, value_name = "RATE")]
    down: Option<Rate>,
    /// Rate from this host, for constant
    ///
    /// In every mode, 0bit sends nothing in this direction.
    #[arg(long, value_name = "RATE")]
    up: Option<Rate>,
    /// UDP payload of a packet, in bytes
    ///
    /// [default: packets of 1500 bytes; constant: 1400; probe: 472]
    #[arg(long, hide_short_help = true, value_name = "BYTES")]
    size: Option<u16>,
    /// Interval between packets, for probe
    #[arg(long, hide_short_help = true, default_value = "400us", value_name = "TIME", value_parser = positive::<Span>)]
    interval: Span,
    /// Highest rate to send at
    #[arg(long, default_value = "1gbit", value_name = "RATE", value_parser = positive::<Rate>)]
    pub(super) limit: Rate,
    /// Name of this host at the other host [default: the host name]
    #[arg(long, hide_short_help = true, value_name = "NAME")]
    label: Option<String>,
    /// Local address
    #[arg(long, hide_short_help = true, value_name = "ADDR")]
    pub(super) bind: Option<IpAddr>,
    /// Time to wait for an answer
    #[arg(long, hide_short_help = true, default_value = "5s", value_name = "TIME", value_parser = positive::<Span>)]
    pub(super) patience: Span,
    /// With --listen: start when this many hosts have connected, together
    #[arg(long, hide_short_help = true, default_value = "1", value_name = "N")]
    pub(super) together: NonZeroUsize,
    /// With --listen: exit after this many recordings
    #[arg(long, value_name = "N")]
    pub(super) count: Option<NonZeroU64>,
    /// With --listen: maximum number of recordings at a time
    ///
    /// One client address has at most half of them, or --together if that is more.
    #[arg(long, hide_short_help = true, default_value = "16", value_name = "N")]
    pub(super) sessions: NonZeroUsize,
    /// With --listen: maximum length of a recording, warm-up included
    #[arg(long, hide_short_help = true, default_value = "15min", value_name = "TIME", value_parser = positive::<Span>)]
    pub(super) max_duration: Span,
    /// With --listen: maximum size of all recordings [default: unlimited]
    ///
    /// One that does not fit is not kept. In any case 5 % of the file system, at most 1 GiB, are left
    /// free.
    #[arg(long, hide_short_help = true, value_name = "BYTES", value_parser = positive::<Bytes>, requires = "listen")]
    pub(super) max_total: Option<Bytes>,
    /// Folder to write into [default: recording]
    ///
    /// With --listen the default is recordings, with a folder for each NAME.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Permit other hosts although nothing is encrypted
    #[arg(long)]
    insecure: bool,
    /// Print the summary as a JSON object
    ///
    /// With --listen, one line for each recording.
    #[arg(long)]
    pub(super) json: bool,
}

fn mode(text: &str) -> Result<Mode, String> {
    let found = Mode::ALL.into_iter().find(|m| m.name() == text);
    found.ok_or_else(|| {
        let names = Mode::ALL.map(Mode::name).join(", ");
        format!("'{text}' is not a mode: {names}")
    })
}

impl Args {
    /// The address of the other host.
    pub(super) fn target(&self, host: &str) -> Result<SocketAddr, Failure> {
        let target = Target::read(host).ok_or_else(|| {
            Failure::usage(format!(
                "'{host}' is not the address of a host: write host, host:port, 192.0.2.1:9701 or [2001:db8::1]:9701"
            ))
        })?;
        let port = if target.port == 0 { PORT } else { target.port };
        let found = Target { port, ..target }.addresses().map_err(|e| {
            Failure::usage(format!(
                "record with {host}: {e}: check the name, or give an address"
            ))
        })?;
        let fits = |to: &&SocketAddr| self.bind.is_none_or(|b| b.is_ipv4() == to.is_ipv4());
        let to = found.iter().find(fits).copied().ok_or_else(|| {
            Failure::usage(format!(
                "record with {host}: it has no address of the family of --bind"
            ))
        })?;
        self.permit(to.ip(), &format!("record with {host}"), "127.0.0.1 as HOST")?;
        Ok(to)
    }

    pub(super) fn listen_address(&self) -> Result<SocketAddr, Failure> {
        let text = self.listen.as_deref().unwrap_or(":9701");
        let at = match text.strip_prefix(':').map(str::parse) {
            // IPv4 too, unless the system says otherwise.
            Some(Ok(port)) if has_ipv6() => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
            Some(Ok(port)) => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port),
            _ => match (text.parse(), text.parse::<IpAddr>()) {
                (Ok(at), _) => at,
                (_, Ok(ip)) => SocketAddr::new(ip, PORT),
                _ => {
                    return Err(Failure::usage(format!(
                        "listen at '{text}': not an address: write :9701, 192.0.2.1:9701 or [2001:db8::1]:9701"
                    )));
                }
            },
        };
        let local = format!("127.0.0.1:{}", at.port());
        self.permit(at.ip(), &format!("listen at {text}"), &local)?;
        Ok(at)
    }

    fn permit(&self, ip: IpAddr, what: &str, local: &str) -> Result<(), Failure> {
        let allowed = self.insecure || alcc_emu::is_emulated();
        cleartext::permit(ip, allowed, what, local)
    }

    pub(super) fn label(&self) -> String {
        let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let label = self.label.clone().or_else(host);
        let label = label.unwrap_or_else(|| "client".to_owned());
        label.trim().chars().filter(|c| !c.is_control()).collect()
    }

    /// The plan of the recording, in packets.
    pub(super) fn plan(&self, to: SocketAddr) -> Result<Plan, Failure> {
        let overhead = if to.ip().to_canonical().is_ipv4() {
            IPV4_OVERHEAD
        } else {
            IPV6_OVERHEAD
        };
        let size = self.size.unwrap_or(match self.mode {
            Mode::Saturate => 1500 - overhead,
            Mode::Constant => 1400,
            Mode::Probe => 472,
        });
        let ip_len = u64::from(size) + u64::from(overhead);
        let load = |name: &str, rate: Option<Rate>, usual: Rate| match (self.mode, rate) {
            (_, Some(Rate::ZERO)) => Ok(Load::Nothing),
            (Mode::Constant, rate) => Ok(Load::at_rate(rate.unwrap_or(usual), ip_len)),
            (Mode::Saturate, None) => Ok(Load::Saturate),
            (Mode::Probe, None) => Ok(Load::Every(self.interval)),
            (mode, Some(rate)) => Err(Failure::usage(format!(
                "--{name} {rate} with --mode {mode}: a rate is for --mode constant; here only 0bit is possible, to send nothing"
            ))),
        };
        let short = self.mode != Mode::Saturate;
        let plan = Plan {
            mode: self.mode,
            duration: self.duration,
            warm_up: self
                .warm_up
                .unwrap_or_else(|| Span::from_secs(if short { 1 } else { 10 })),
            size,
            overhead,
            down: load("down", self.down, Rate::mbps(5))?,
            up: load("up", self.up, Rate::bps(2_500_000))?,
            limit: self.limit,
        };
        match plan.problem() {
            Some(problem) => Err(Failure::usage(format!("record: {problem}"))),
            None => Ok(plan),
        }
    }
}

fn has_ipv6() -> bool {
    std::path::Path::new("/proc/net/if_inet6").exists()
}
