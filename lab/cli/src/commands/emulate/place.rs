// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The outer end of the link, and the data about it for a nested emulator.
use crate::failure::Failure;
use alcc_emu::{Emulator, Namespace, Privilege, Subnet, prepare};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Number of the /16 and nesting depth of the link around a process.
const NET: &str = "ALCC_EMULATE_NET";
const LEVEL: &str = "ALCC_EMULATE_LEVEL";
/// Set where no further link can be nested.
const LEAF: &str = "ALCC_EMULATE_LEAF";
/// Address of servers: the other end of the outermost link.
const OUTSIDE: &str = "ALCC_OUTSIDE";
const OUTSIDE6: &str = "ALCC_OUTSIDE6";

pub(super) struct Place {
    pub(super) outside: Namespace,
    /// False if `outside` is an empty namespace that was just made.
    pub(super) shared: bool,
    /// The link around us.
    around: Option<Subnet>,
    /// The other end of the outermost link around us.
    pub(super) far_end: Option<(Ipv4Addr, Ipv6Addr)>,
}

impl Place {
    /// Enters a user namespace where that is needed: the process must have one thread.
    pub(super) fn find() -> Result<Self, Failure> {
        let shared = prepare().map_err(Failure::usage)? == Privilege::Full;
        let outside = Namespace::current().map_err(Failure::usage)?;
        let number = |name: &str| std::env::var(name).ok()?.parse::<u8>().ok();
        // The environment describes the previous namespace, which does not matter in a new one.
        let around = number(NET)
            .zip(number(LEVEL))
            .filter(|_| shared)
            .and_then(|(n, level)| Subnet::new(n, level).ok())
            .map(|net| match std::env::var_os(LEAF) {
                Some(_) => net.leaf(),
                None => net,
            });
        let told = |name: &str| std::env::var(name).ok();
        let far_end = around.and_then(|_| {
            let v4 = told(OUTSIDE)?.parse().ok()?;
            Some((v4, told(OUTSIDE6)?.parse().ok()?))
        });
        Ok(Self {
            outside,
            shared,
            around,
            far_end,
        })
    }

    /// True if the environment says that this process is behind an emulated link.
    pub(super) fn is_nested(&self) -> bool {
        std::env::var_os(LEVEL).is_some()
    }

    /// The address ranges to try, best first.
    pub(super) fn subnets(&self) -> Vec<Subnet> {
        match self.around {
            Some(around) => around.nested().collect(),
            // Emulators that start at the same time try different ranges first.
            None => Subnet::candidates(std::process::id()).collect(),
        }
    }

    /// The environment of CMD.
    pub(super) fn environment(
        &self,
        link: &Emulator,
        (v4, v6): (Ipv4Addr, Ipv6Addr),
    ) -> Vec<(&'static str, String)> {
        let net = link.subnet();
        let mut told = vec![
            (OUTSIDE, v4.to_string()),
            (OUTSIDE6, v6.to_string()),
            (NET, net.number().to_string()),
            (LEVEL, net.level().to_string()),
        ];
        if net.is_leaf() {
            told.push((LEAF, "1".to_owned()));
        }
        told
    }
}
