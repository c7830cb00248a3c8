// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stack's own algorithms, for comparisons.
use noq::congestion::{Bbr3Config, Controller, ControllerFactory, CubicConfig, NewRenoConfig};
use std::sync::Arc;
use std::time::Instant;

/// One of the controllers that come with the stack.
///
/// ```
/// use alcc_quic::StackController;
/// use std::sync::Arc;
///
/// let cubic = StackController::named("cubic").expect("it is one of StackController::NAMES");
/// noq::TransportConfig::default().congestion_controller_factory(Arc::new(cubic));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackController(&'static str);

impl StackController {
    /// The names for [`StackController::named`].
    pub const NAMES: &[&str] = &["cubic", "reno", "bbr3"];

    /// The controller of this name.
    pub fn named(name: &str) -> Option<Self> {
        let name = Self::NAMES.iter().find(|known| **known == name)?;
        Some(Self(name))
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.0
    }
}

impl ControllerFactory for StackController {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        match self.0 {
            "reno" => Arc::new(NewRenoConfig::default()).build(now, current_mtu),
            "bbr3" => Arc::new(Bbr3Config::default()).build(now, current_mtu),
            _ => Arc::new(CubicConfig::default()).build(now, current_mtu),
        }
    }
}
