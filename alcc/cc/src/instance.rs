// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The product of the registry: an algorithm for one flow, with or without a receiver module.
use crate::{Controller, Cx, Header, Receiver, Sending, WithReceiver};
use std::ops::{Deref, DerefMut};

/// An algorithm for one flow, as the registry builds it.
///
/// ```
/// use alcc_cc::Registry;
///
/// let registry = Registry::builtin();
/// let three = registry.build(&"fixed:window=3".parse()?)?;
/// assert!(!three.has_receiver());
/// assert_eq!(three.clone().allowance(), three.allowance()); // the methods of Controller
/// assert!(registry.build(&"sprout".parse()?)?.has_receiver());
/// # Ok::<(), alcc_cc::SpecError>(())
/// ```
#[derive(Clone)]
pub enum Instance {
    /// An algorithm without a receiver module.
    Plain(Box<dyn Controller>),
    /// An algorithm with a receiver module.
    WithReceiver(Box<dyn WithReceiver>),
}

impl Instance {
    /// Wraps an algorithm without a receiver module.
    pub fn new(controller: impl Controller) -> Self {
        Self::Plain(Box::new(controller))
    }

    /// Wraps an algorithm with a receiver module.
    pub fn with_receiver(controller: impl WithReceiver) -> Self {
        Self::WithReceiver(Box::new(controller))
    }

    /// Puts the algorithm into a wrapper that has a receiver module if the algorithm has one.
    #[must_use]
    pub fn wrapped<W: WithReceiver>(self, wrap: impl FnOnce(Self) -> W) -> Self {
        match self {
            Self::Plain(_) => Self::new(wrap(self)),
            Self::WithReceiver(_) => Self::with_receiver(wrap(self)),
        }
    }

    /// True if the algorithm depends on the reports of a receiver module.
    pub fn has_receiver(&self) -> bool {
        matches!(self, Self::WithReceiver(_))
    }

    /// [`WithReceiver::receiver`], if there is one.
    pub fn receiver(&self) -> Option<Box<dyn Receiver>> {
        match self {
            Self::Plain(_) => None,
            Self::WithReceiver(cc) => Some(cc.receiver()),
        }
    }

    /// [`WithReceiver::header_len`]; zero without a receiver module.
    pub fn header_len(&self) -> u8 {
        match self {
            Self::Plain(_) => 0,
            Self::WithReceiver(cc) => cc.header_len(),
        }
    }

    /// [`WithReceiver::header`]; empty without a receiver module.
    pub fn header(&mut self, cx: &mut Cx<'_>, sending: &Sending) -> Header {
        match self {
            Self::Plain(_) => Header::EMPTY,
            Self::WithReceiver(cc) => cc.header(cx, sending),
        }
    }

    /// [`WithReceiver::on_feedback`]; does nothing without a receiver module.
    pub fn on_feedback(&mut self, cx: &mut Cx<'_>, report: &[u8]) {
        match self {
            Self::Plain(_) => {}
            Self::WithReceiver(cc) => cc.on_feedback(cx, report),
        }
    }
}

impl Deref for Instance {
    type Target = dyn Controller;

    #[inline]
    fn deref(&self) -> &Self::Target {
        match self {
            Self::Plain(cc) => cc.as_ref(),
            Self::WithReceiver(cc) => cc.as_ref(),
        }
    }
}

impl DerefMut for Instance {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Plain(cc) => cc.as_mut(),
            Self::WithReceiver(cc) => cc.as_mut(),
        }
    }
}
