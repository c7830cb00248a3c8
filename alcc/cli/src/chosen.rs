// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The selection of connections and their control: the options of `alcc run` and `alcc proxy`, and the
//! settings of their file.
use crate::config::{Config, Share};
use crate::failure::Failure;
use crate::plugin_arg::Plugins;
use alcc_cc::{Registry, Spec};
use alcc_observe::Pattern;
use alcc_socket::Selection;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Algorithm with its options, see 'alcc list' [default: budget]
    #[arg(long, value_name = "A")]
    cc: Option<Spec>,
    /// Read options from a TOML file, see docs/operating.md
    ///
    /// It can choose algorithms by port and by peer. Command-line options override it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) plugins: Plugins,
    /// Kernel congestion control below the algorithm, such as bbr [default: the system's]
    #[arg(long, value_name = "TCPCC")]
    under: Option<String>,
    /// Source of acknowledgements, see 'alcc list' [default: auto]
    #[arg(long, hide_short_help = true, value_name = "F")]
    feedback: Option<String>,
    /// Enforcement of the window, see 'alcc list' [default: auto]
    #[arg(long, hide_short_help = true, value_name = "E")]
    enforce: Option<String>,
    /// Only these local ports, client networks or share of clients, such as 10%
    ///
    /// Separate several by commas, or repeat the option. All other connections remain plain TCP.
    #[arg(long, value_name = "PORT|CIDR|SHARE", value_delimiter = ',')]
    only: Vec<Pattern>,
    /// Exclude these local ports, client networks or share of clients
    ///
    /// Separate several by commas, or repeat the option.
    #[arg(long, value_name = "PORT|CIDR|SHARE", value_delimiter = ',')]
    except: Vec<Pattern>,
    /// Also connections from this machine itself
    #[arg(long)]
    loopback: bool,
    /// Also connections that the program opens itself
    #[arg(long)]
    outbound: bool,
}

/// Options and file together.
pub(crate) struct Chosen {
    pub(crate) registry: Registry,
    pub(crate) cc: Spec,
    pub(crate) under: Option<String>,
    pub(crate) feedback: String,
    pub(crate) enforce: String,
    pub(crate) share: bool,
    pub(crate) selection: Selection,
}

impl Options {
    /// Reads the file. Options override it; lists are added to its lists.
    pub(crate) fn chosen(&self, share: Option<Share>) -> Result<Chosen, Failure> {
        let registry = self.plugins.registry(Registry::builtin())?;
        let file = match &self.config {
            Some(path) => Config::read(path, &registry)?,
            None => Config::default(),
        };
        let cc = self.cc.clone().or(file.cc);
        let cc = cc.unwrap_or_else(|| Spec::named(alcc_cc::DEFAULT));
        registry.build(&cc).map_err(Failure::usage)?;
        let share = share.or(file.share).is_some();
        let rules = file.rules.iter().filter_map(|rule| rule.cc.as_ref());
        for cc in rules.chain([&cc]).filter(|_| share) {
            check_share(&registry, cc)?;
        }
        let under = self.under.clone().or(file.under);
        if let Some(under) = &under {
            alcc_pipe::check_under(under)?;
        }
        let auto = |option: &Option<String>, file: Option<String>| {
            option.clone().or(file).unwrap_or_else(|| "auto".to_owned())
        };
        Ok(Chosen {
            cc,
            under,
            feedback: auto(&self.feedback, file.feedback),
            enforce: auto(&self.enforce, file.enforce),
            share,
            selection: Selection {
                loopback: self.loopback || file.loopback,
                outbound: self.outbound || file.outbound,
                only: [self.only.clone(), file.only].concat(),
                except: [self.except.clone(), file.except].concat(),
                rules: file.rules,
            },
            registry,
        })
    }
}

/// Checks that connections under this algorithm can share one window.
fn check_share(registry: &Registry, spec: &Spec) -> Result<(), Failure> {
    let cc = registry.build(spec).map_err(Failure::usage)?;
    if alcc_socket::can_share(&cc) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--share host: {} cannot share one window: use an algorithm with a window, such as budget, copa or cubic",
        spec.name
    )))
}
