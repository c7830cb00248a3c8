// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of transports, with the names, schemes and refusals that follow from its columns.
use crate::{Failure, Listening, Options, Plan, Transport, check_under};
use alcc_cc::DEFAULT;
use std::net::SocketAddr;

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct About {
    /// The name as typed.
    pub name: &'static str,
    /// A one-line summary.
    pub summary: &'static str,
    /// The end of scheme names for this transport: `verus-udp`, `alcc-verus-inband`.
    pub suffix: &'static str,
    /// The default source of acknowledgements.
    pub feedback: &'static str,
    /// The default enforcement of the limit.
    pub enforcement: &'static str,
    /// The options that it takes.
    pub takes: Takes,
}

/// The options that a transport takes. The others are refused before it is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Takes {
    /// True if `--cc` is required, because there is no other congestion control.
    pub needs_cc: bool,
    /// True if `--feedback` and `--enforce` may have other values than those of the row.
    pub other_feedback: bool,
    /// The meaning of `--under`.
    pub under: Under,
    /// `Ok` if it takes `--carrier`, or the reason why not.
    pub carrier: Result<(), &'static str>,
    /// The meaning of `--pin`, `--ca`, `--cert`.
    pub tls: Tls,
}

/// The congestion control that `--under` selects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Under {
    /// The kernel's, for TCP: alone or below ours.
    Kernel,
    /// One of the stack's own, instead of `--cc`.
    Stack {
        /// The name of the stack in messages: `over QUIC`.
        over: &'static str,
        /// All names.
        names: &'static [&'static str],
    },
    /// None, with the reason.
    None(&'static str),
}

/// The use of TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tls {
    /// Always.
    Always,
    /// Only in this carrier.
    Carrier(&'static str),
    /// Never: all data is unencrypted.
    Never,
}

impl About {
    /// True if the kernel's TCP is below.
    pub fn is_above_tcp(&self) -> bool {
        self.takes.under == Under::Kernel
    }
}

/// All transports of a program; the first is the default.
pub struct Table(pub &'static [&'static dyn Transport]);

impl Table {
    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = About> {
        self.0.iter().map(|t| t.about())
    }

    /// The transport of this name.
    ///
    /// # Errors
    /// [`Failure::Usage`] with the names of all transports.
    pub fn find(&self, name: &str) -> Result<&'static dyn Transport, Failure> {
        let found = self.0.iter().find(|t| t.about().name == name).copied();
        found.ok_or_else(|| {
            let known: Vec<_> = self.rows().map(|row| row.name).collect();
            Failure::usage(format!(
                "no transport '{name}': there are {}",
                known.join(", ")
            ))
        })
    }

    /// The plan of a sender with these options.
    ///
    /// # Errors
    /// [`Failure::Usage`] for an option that the transport does not take, with the remedy.
    pub fn plan(&self, transport: &dyn Transport, options: &Options) -> Result<Plan, Failure> {
        let about = transport.about();
        self.refuse_link(&about, options)?;
        refuse_under(&about, options)?;
        refuse_pair(&about, options)?;
        if about.takes.needs_cc && options.cc.is_none() {
            let name = about.name;
            return Err(Failure::usage(format!(
                "--transport {name} needs an algorithm: add --cc {DEFAULT}"
            )));
        }
        transport.plan(options)
    }

    /// Listens for senders at this address.
    ///
    /// # Errors
    /// [`Failure::Usage`]: the transport does not take an option; or the address is in use, not of
    /// this machine, or not allowed.
    pub fn listen(
        &self,
        transport: &dyn Transport,
        at: SocketAddr,
        options: &Options,
    ) -> Result<Box<dyn Listening>, Failure> {
        self.refuse_link(&transport.about(), options)?;
        transport.listen(at, options)
    }

    /// Checks the options of both ends.
    fn refuse_link(&self, about: &About, options: &Options) -> Result<(), Failure> {
        if let (Some(carrier), Err(why)) = (&options.carrier, about.takes.carrier) {
            let others = self.rows().filter(|row| row.takes.carrier.is_ok());
            return Err(Failure::usage(format!(
                "--carrier {carrier}: {why}; {} has carriers",
                flags(others.map(|row| row.name.to_owned()))
            )));
        }
        if let (Some(option), Tls::Never) = (options.certificate_option(), about.takes.tls) {
            let mut others: Vec<_> = self.rows().collect();
            // Transports that always use TLS are listed first.
            others.sort_by_key(|row| row.takes.tls != Tls::Always);
            let others = others.iter().filter_map(|row| match row.takes.tls {
                Tls::Always => Some(row.name.to_owned()),
                Tls::Carrier(carrier) => Some(format!("{} --carrier {carrier}", row.name)),
                Tls::Never => None,
            });
            return Err(Failure::usage(format!(
                "{option}: --transport {} has no TLS; {} has",
                about.name,
                flags(others)
            )));
        }
        Ok(())
    }
}

fn flags(names: impl Iterator<Item = String>) -> String {
    let flags: Vec<_> = names.map(|name| format!("--transport {name}")).collect();
    flags.join(" or ")
}

fn refuse_under(about: &About, options: &Options) -> Result<(), Failure> {
    let Some(under) = &options.under else {
        return Ok(());
    };
    match about.takes.under {
        Under::Kernel => check_under(under),
        Under::Stack { over, .. } if options.cc.is_some() => Err(Failure::usage(format!(
            "--cc with --under {under}: {over} there is no congestion control below --cc; omit one of them"
        ))),
        Under::Stack { names, .. } if names.contains(&under.as_str()) => Ok(()),
        Under::Stack { over, names } => Err(Failure::usage(format!(
            "--under {under}: {over} it must be one of the stack's own: {}",
            names.join(", ")
        ))),
        Under::None(why) => Err(Failure::usage(format!("--under {under}: {why}"))),
    }
}

fn refuse_pair(about: &About, options: &Options) -> Result<(), Failure> {
    for (option, value, own) in [
        ("--feedback", &options.feedback, about.feedback),
        ("--enforce", &options.enforce, about.enforcement),
    ] {
        if value == "auto" {
            continue;
        }
        if about.takes.other_feedback {
            if options.cc.is_none() {
                return Err(Failure::usage(format!(
                    "{option} {value}: without --cc the kernel decides alone; add --cc {DEFAULT}"
                )));
            }
        } else if value != own {
            return Err(Failure::usage(format!(
                "{option} {value}: --transport {} supports only {own}",
                about.name
            )));
        }
    }
    Ok(())
}
