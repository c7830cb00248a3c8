// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of transports, and what follows from its columns: names, schemes, refusals.
use crate::{Failure, Listening, Options, Plan, Transport, check_under};
use alcc_cc::DEFAULT;
use std::net::SocketAddr;

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct About {
    /// What a user types.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// How a scheme's name ends that goes by it: `verus-udp`, `alcc-verus-inband`.
    pub suffix: &'static str,
    /// How acknowledgements are learned, unless the sender says otherwise.
    pub feedback: &'static str,
    /// How the limit is kept, unless the sender says otherwise.
    pub enforcement: &'static str,
    /// Which options it takes.
    pub takes: Takes,
}

/// Which options a transport takes; it is not asked about the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Takes {
    /// `--cc` has to be there: nobody else decides how much may leave.
    pub needs_cc: bool,
    /// Other values of `--feedback` and `--enforce` than those of the row.
    pub other_feedback: bool,
    /// `--under`.
    pub under: Under,
    /// `--carrier`, or why there is none.
    pub carrier: Result<(), &'static str>,
    /// `--pin`, `--ca`, `--cert`.
    pub tls: Tls,
}

/// Which congestion control `--under` chooses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Under {
    /// The kernel's, for TCP: alone or below ours.
    Kernel,
    /// One of the stack's own, instead of `--cc`.
    Stack {
        /// What a message calls the stack: `over QUIC`.
        over: &'static str,
        /// All there are.
        names: &'static [&'static str],
    },
    /// None, and why.
    None(&'static str),
}

/// Where TLS is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tls {
    /// Always.
    Always,
    /// In this carrier.
    Carrier(&'static str),
    /// Nowhere: everything is in the clear.
    Never,
}

impl About {
    /// The kernel's TCP is below.
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
    /// [`Failure::Usage`] with the names there are.
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

    /// What a sender with these options will be.
    ///
    /// # Errors
    /// [`Failure::Usage`]: an option that the transport does not take, and what would be right.
    pub fn plan(&self, transport: &dyn Transport, options: &Options) -> Result<Plan, Failure> {
        let about = transport.about();
        self.refuse_link(&about, options)?;
        refuse_under(&about, options)?;
        refuse_pair(&about, options)?;
        if about.takes.needs_cc && options.cc.is_none() {
            let name = about.name;
            return Err(Failure::usage(format!(
                "--transport {name} needs an algorithm that sends: add --cc {DEFAULT}"
            )));
        }
        transport.plan(options)
    }

    /// Waits for senders at this address.
    ///
    /// # Errors
    /// [`Failure::Usage`]: an option that the transport does not take; in use, not of this machine,
    /// not allowed.
    pub fn listen(
        &self,
        transport: &dyn Transport,
        at: SocketAddr,
        options: &Options,
    ) -> Result<Box<dyn Listening>, Failure> {
        self.refuse_link(&transport.about(), options)?;
        transport.listen(at, options)
    }

    /// What both ends take.
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
            // What always has TLS is said first.
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
            "--cc with --under {under}: {over} nothing is below --cc; leave one of them out"
        ))),
        Under::Stack { names, .. } if names.contains(&under.as_str()) => Ok(()),
        Under::Stack { over, names } => Err(Failure::usage(format!(
            "--under {under}: {over} it is one of the stack's own: {}",
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
                    "{option} {value}: without --cc the kernel alone decides; add --cc {DEFAULT}"
                )));
            }
        } else if value != own {
            return Err(Failure::usage(format!(
                "{option} {value}: --transport {} has {own} and nothing else",
                about.name
            )));
        }
    }
    Ok(())
}
