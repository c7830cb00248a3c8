// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `alcc-lab emulate`.
use super::profile::{self, Profile};
use crate::about::{about, whole_command};
use crate::changes_arg::ChangesArg;
use crate::failure::Failure;
use crate::http::Loopback;
use crate::json_out::JsonOut;
use crate::trace_arg::load_link_trace;
use alcc_emu::{Dir, LogForm, LogSpec, Observer, PacketLog, PathSpec, Silent};
use alcc_link::log::Header;
use alcc_link::{Changes, DirectionSpec, QueueSpec, RadioSpec, RateSpec};
use alcc_live::board::emulated_now;
use alcc_results::About;
use alcc_results::scenario::{looks_like_a_rate, probability};
use alcc_units::{Rate, Span, SpecError, positive};
use std::ffi::{OsStr, OsString};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The default queue before a bottleneck.
const QUEUE: &str = "droptail:bytes=2000000";

/// Run a program behind an emulated link
///
/// CMD runs in a network namespace of its own that reaches the outside only over the link. The
/// other end is the network in which this command runs. Without privileges it is an empty network,
/// in which --outside can start a server. CMD finds the address of the other end in ALCC_OUTSIDE,
/// and its IPv6 address in ALCC_OUTSIDE6. Down is towards CMD. Links nest: CMD may be another
/// alcc-lab emulate.
///
/// When CMD ends, processes that it or --outside started are ended, too. A line for each direction
/// goes to standard error. The exit status is that of CMD, or 128 plus the number of the signal
/// that ended it.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  alcc-lab emulate --profile starlink -- bash\n  alcc-lab emulate --delay 20ms --down 12mbit --queue codel -- bash",
    after_long_help = "Examples:\n  alcc-lab emulate --profile starlink -- bash\n  sudo alcc-lab emulate --internet --profile lte-edge -- firefox\n  alcc-lab emulate --down 12mbit --control 127.0.0.1:9102 -- ./tests.sh\n  alcc-lab emulate --delay 20ms --down 12mbit --outside 'python3 -m http.server' -- sh -c 'curl -so out http://$ALCC_OUTSIDE:8000/file'\n  alcc-lab emulate --delay 20ms -- alcc-lab emulate --down lte.trace --queue codel -- bash\n  alcc-lab emulate --down 12mbit --step 10s:rate=4mbit --step 20s:rate=12mbit,delay=50ms -- CMD\n\nTRACE is a Mahimahi file, or a synthetic scenario such as city-driving (alcc-lab trace synth lists them). RATE is 12mbit, 500kbit, 1gbit. Other options than --down and --up set both directions, unless --queue-up, --loss-up or --radio-up sets the one from CMD."
)]
pub(crate) struct Args {
    #[arg(long, value_name = "PROFILE", help = profile::help(), long_help = profile::long_help(), value_parser = <&'static Profile>::from_str)]
    profile: Option<&'static Profile>,
    /// Propagation delay of each direction, half of the RTT [default: 0s]
    #[arg(long, value_name = "TIME")]
    delay: Option<Span>,
    /// Bottleneck towards CMD: a trace or a rate [default: none]
    #[arg(long, value_name = "TRACE|RATE")]
    down: Option<OsString>,
    /// Bottleneck from CMD: a trace or a rate [default: none]
    #[arg(long, value_name = "TRACE|RATE")]
    up: Option<OsString>,
    /// Queue of the bottlenecks, such as codel [default: droptail:bytes=2000000]
    #[arg(long, value_name = "Q")]
    queue: Option<QueueSpec>,
    /// Queue of the direction from CMD [default: as --queue]
    #[arg(long, hide_short_help = true, value_name = "Q")]
    queue_up: Option<QueueSpec>,
    /// Probability of random loss: 1% or 0.01
    #[arg(long, value_name = "P", default_value = "0", value_parser = probability)]
    loss: f64,
    /// Probability of random loss from CMD [default: as --loss]
    #[arg(long, hide_short_help = true, value_name = "P", value_parser = probability)]
    loss_up: Option<f64>,
    /// Radio link behind the bottleneck, such as harq:errors=0.1; may be repeated
    ///
    /// See 'alcc-lab list' [default: that of a synthetic trace].
    #[arg(long, value_name = "RADIO")]
    radio: Vec<RadioSpec>,
    /// Radio link of the direction from CMD [default: as --radio]
    #[arg(long, hide_short_help = true, value_name = "RADIO")]
    radio_up: Vec<RadioSpec>,
    #[command(flatten)]
    changes: ChangesArg,
    /// Seed of random loss, random queues and synthetic traces
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Log every packet at the bottlenecks to FILE.down and FILE.up
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Write Mahimahi's logs to FILE.down and FILE.up
    ///
    /// mm-throughput-graph and mm-delay-graph read them.
    #[arg(
        long,
        hide_short_help = true,
        value_name = "FILE",
        conflicts_with = "control"
    )]
    mahimahi_log: Option<PathBuf>,
    #[command(flatten)]
    pub(super) json: JsonOut,
    /// Shell command to run at the other end while CMD runs
    ///
    /// CMD starts when it listens on a TCP or UDP port, or after 30 s. ALCC_INSIDE is the address of
    /// CMD's side.
    #[arg(long, value_name = "COMMAND")]
    pub(super) outside: Option<String>,
    /// Let CMD reach what this machine reaches; needs root and nft
    ///
    /// Addresses are translated, and names are resolved by this machine's servers.
    #[arg(long)]
    pub(super) internet: bool,
    /// With --internet: resolve names at this server; may be repeated
    #[arg(
        long,
        hide_short_help = true,
        value_name = "ADDRESS",
        requires = "internet"
    )]
    pub(super) dns: Vec<Ipv4Addr>,
    /// Serve an HTTP interface to change the link, such as at 127.0.0.1:9102
    ///
    /// The address must be one of loopback. CMD finds it in ALCC_CONTROL.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["step", "steps"])]
    pub(super) control: Option<Loopback>,
    /// Print nothing at exit
    #[arg(long)]
    pub(super) quiet: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

/// Towards CMD, and from it.
type Radios = [&'static [&'static str]; 2];

impl Args {
    /// The link that the options describe; reads trace files.
    pub(super) fn path_spec(&self) -> Result<PathSpec, Failure> {
        let asked = self.with_profile()?;
        let queue = asked.queue.clone().map_or_else(|| QUEUE.parse(), Ok);
        let queue = queue.map_err(Failure::usage)?;
        let queue_up = asked.queue_up.clone().unwrap_or_else(|| queue.clone());
        let changes = self.changes.changes(self.seed)?;
        // Over HTTP any delay may come.
        if self.control.is_none() {
            self.changes.check_reorder(&changes)?;
        }
        let down_changes = changes.there(asked.down.is_some());
        if asked.down.is_none()
            && asked.up.is_none()
            && changes.steps.iter().any(|s| s.rate.is_some())
        {
            return Err(Failure::usage(
                "steps of the rate: there is no bottleneck to change: give --down, --up or both",
            ));
        }
        let no_up = asked.up.is_none();
        for (idle, option, needs) in [
            (
                self.queue.is_some() && asked.down.is_none() && no_up,
                "--queue",
                "--down, --up or both",
            ),
            (self.queue_up.is_some() && no_up, "--queue-up", "--up"),
        ] {
            if idle {
                return Err(Failure::usage(format!(
                    "{option}: a queue needs a bottleneck: give {needs}"
                )));
            }
        }
        let (down, own) = self.bottleneck("--down", asked.down.as_deref())?;
        let (up, _) = self.bottleneck("--up", asked.up.as_deref())?;
        let [radio, radio_up] = RadioSpec::both(asked.radio, own).map_err(Failure::usage)?;
        let direction = |rate, queue: &QueueSpec, loss, changes: Changes, radio| DirectionSpec {
            changes,
            rate,
            queue: queue.clone(),
            delay: asked.delay,
            loss,
            radio,
        };
        let up_changes = changes.back(asked.up.is_some());
        let loss_up = self.loss_up.unwrap_or(self.loss);
        Ok(PathSpec {
            down: direction(down, &queue, self.loss, down_changes, radio),
            up: direction(up, &queue_up, loss_up, up_changes, radio_up),
            seed: self.seed,
        })
    }

    /// The options, with the values of the profile for options that are not given.
    fn with_profile(&self) -> Result<Asked, Failure> {
        let radio = [self.radio.clone(), self.radio_up.clone()];
        let mut asked = Asked {
            down: self.down.clone(),
            up: self.up.clone(),
            delay: self.delay.unwrap_or(Span::ZERO),
            queue: self.queue.clone(),
            queue_up: self.queue_up.clone(),
            radio,
        };
        let Some(profile) = self.profile else {
            return Ok(asked);
        };
        let wrong = |e: SpecError| Failure::usage(format!("profile {}: {e}", profile.name));
        let radio = |words: &[&str]| -> Result<Vec<RadioSpec>, SpecError> {
            words.iter().map(|word| word.parse()).collect()
        };
        if asked.radio.iter().all(Vec::is_empty) {
            asked.radio = [
                radio(profile.radio).map_err(wrong)?,
                radio(profile.radio_up).map_err(wrong)?,
            ];
        }
        if self.delay.is_none() {
            asked.delay = profile.delay.parse().map_err(Failure::usage)?;
        }
        // A queue that is asked for is that of both directions, as without a profile.
        if asked.queue.is_none() {
            asked.queue = Some(profile.queue.parse().map_err(wrong)?);
            if asked.queue_up.is_none() {
                asked.queue_up = Some(profile.queue_up.parse().map_err(wrong)?);
            }
        }
        asked.down.get_or_insert_with(|| profile.down.into());
        asked.up.get_or_insert_with(|| profile.up.into());
        Ok(asked)
    }

    /// A bottleneck, and what its radio link adds if it is a synthetic trace.
    fn bottleneck(
        &self,
        option: &str,
        name: Option<&OsStr>,
    ) -> Result<(RateSpec, Radios), Failure> {
        let Some(name) = name else {
            return Ok((RateSpec::Unlimited, [&[]; 2]));
        };
        let text = name.to_string_lossy();
        // A text that begins like a number is a rate, unless a file has this name.
        if looks_like_a_rate(&text) && !Path::new(name).exists() {
            return positive::<Rate>(&text)
                .map(|rate| (RateSpec::Fixed(rate), [&[][..]; 2]))
                .map_err(|e| Failure::usage(format!("{option}: {e}, or name a trace file")));
        }
        load_link_trace(name, self.seed).map(|it| (RateSpec::Trace(it.trace), it.radio))
    }

    /// The files of the packet logs, and whether they are in Mahimahi's format.
    pub(super) fn log_files(&self) -> impl Iterator<Item = (Dir, PathBuf, bool)> {
        let asked = [(&self.log, false), (&self.mahimahi_log, true)];
        asked.into_iter().flat_map(|(file, theirs)| {
            let of = move |dir: Dir| {
                let mut path = file.clone()?.into_os_string();
                path.push(".");
                path.push(dir.name());
                Some((dir, path.into(), theirs))
            };
            [Dir::Down, Dir::Up].into_iter().filter_map(of)
        })
    }

    /// Metadata of the report and of the logs, at the start.
    pub(super) fn about(&self) -> About {
        let [down, up] = self.link_names();
        let links = [&self.down, &self.up].into_iter().flatten();
        let files = links.map(Path::new).chain(self.changes.file());
        let side = About {
            link: format!("down {down}, up {up}"),
            seed: self.seed,
            ..emulated_now()
        };
        about(whole_command(), side, files.map(Path::to_owned))
    }

    fn log_spec(
        &self,
        (dir, path, theirs): (Dir, PathBuf, bool),
        spec: &PathSpec,
        about: &About,
    ) -> LogSpec {
        let (direction, link) = match dir {
            Dir::Down => (&spec.down, self.link_names()[0].clone()),
            Dir::Up => (&spec.up, self.link_names()[1].clone()),
        };
        let link = match direction.rate {
            RateSpec::Trace(_) => format!("trace {link}"),
            RateSpec::Fixed(rate) => rate.to_string(),
            RateSpec::Unlimited => "unlimited".to_owned(),
        };
        LogSpec {
            dir,
            path,
            header: Header {
                program: about.program.clone(),
                command: about.command.clone(),
                about: serde_json::to_string(about).unwrap_or_default(),
                direction: dir.name().to_owned(),
                link,
                queue: direction.queue.to_string(),
                delay: direction.delay,
                loss: direction.loss.to_string(),
                seed: spec.seed_of(dir),
            },
            form: match theirs {
                true => LogForm::Mahimahi(Box::new(spec.model(dir))),
                false => LogForm::Own(direction.rate.clone()),
            },
        }
    }

    /// The observers of packets.
    pub(super) fn observer(
        &self,
        spec: &PathSpec,
        about: &About,
    ) -> Result<(Option<PacketLog>, Box<dyn Observer + Send>), Failure> {
        let logs: Vec<_> = (self.log_files())
            .map(|log| self.log_spec(log, spec, about))
            .collect();
        if logs.is_empty() {
            return Ok((None, Box::new(Silent)));
        }
        let (log, observer) =
            PacketLog::create(logs).map_err(|why| Failure::usage(super::told(&why)))?;
        Ok((Some(log), observer))
    }

    /// Names of the bottlenecks in logs and reports.
    pub(super) fn link_names(&self) -> [String; 2] {
        let of = |asked: &Option<OsString>, profile: fn(&Profile) -> &'static str| match asked {
            Some(name) => name.to_string_lossy().into_owned(),
            None => self.profile.map_or("unlimited", profile).to_owned(),
        };
        [of(&self.down, |p| p.down), of(&self.up, |p| p.up)]
    }
}

/// The link, from the options and a profile.
struct Asked {
    down: Option<OsString>,
    up: Option<OsString>,
    delay: Span,
    queue: Option<QueueSpec>,
    queue_up: Option<QueueSpec>,
    radio: [Vec<RadioSpec>; 2],
}

#[cfg(test)]
mod tests {
    use super::super::profile::PROFILES;
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn spec(options: &str) -> PathSpec {
        let words = format!("emulate {options} -- true");
        let line = Line::try_parse_from(words.split_whitespace());
        let line = line.unwrap_or_else(|e| panic!("{options}: {e}"));
        let spec = line.args.path_spec();
        spec.unwrap_or_else(|e| panic!("{options}: {e}"))
    }

    #[test]
    fn every_profile_is_a_link() {
        for profile in PROFILES {
            let spec = spec(&format!("--profile {}", profile.name));
            let delay: Span = profile.delay.parse().expect("a time");
            assert_eq!((spec.down.delay, spec.up.delay), (delay, delay));
            assert!(!matches!(spec.down.rate, RateSpec::Unlimited));
            assert_eq!(spec.down.radio.len(), profile.radio.len());
            assert_eq!(spec.up.radio.len(), profile.radio_up.len());
        }
    }

    #[test]
    fn an_option_goes_before_the_profile() {
        let spec = spec("--profile starlink --delay 3ms --down 7mbit --queue codel --radio rlc");
        assert_eq!(spec.down.delay, Span::from_millis(3));
        assert!(matches!(spec.down.rate, RateSpec::Fixed(rate) if rate.to_string() == "7mbit"));
        assert_eq!(spec.up.queue.to_string(), spec.down.queue.to_string());
        let radio: Vec<_> = spec.down.radio.iter().map(ToString::to_string).collect();
        assert!(radio.len() == 1 && radio[0].starts_with("rlc"), "{radio:?}");
    }
}
