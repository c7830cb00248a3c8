// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Algorithms that live in the kernel, and their options on one socket: `struct options` of `options.h`.
use crate::socket::Plain;
use crate::steered::{LOCKED, UPDATE, element, map};
use alcc_units::{Span, Spec};
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Names of the algorithms with a form in the kernel.
const RESIDENT: &[&str] = &["copa", "verus", "budget", "vegas", "bic", "westwood"];
const MAP: &CStr = c"/run/alcc-bpf/options";

/// Options of an algorithm in the kernel for one socket; zero means the default.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Options {
    /// `budget`: the queueing delay, microseconds.
    pub delay: u32,
    /// `copa`: delta, in units of 2^-16 per packet.
    pub delta: u32,
    /// `verus`: R, in units of 2^-8.
    pub ratio: u32,
}

impl Options {
    /// Size of `struct options`, in bytes.
    pub const LEN: usize = 12;

    /// Translates the options of a spec. `None` if the form in the kernel lacks an option or cannot hold its value. The
    /// crate `cc` checks the values; this function does not.
    pub fn of(spec: &Spec) -> Option<Self> {
        let mut options = Self::default();
        for (name, value) in &spec.options {
            match (&*spec.name, &**name, &**value) {
                ("copa" | "verus", "profile", "tuned")
                | ("bic" | "westwood", "profile", "linux")
                | ("copa", "mode", "default") => {}
                ("budget", "delay", delay) => {
                    let delay: Span = delay.parse().ok()?;
                    options.delay = u32::try_from(delay.as_nanos() / 1000).ok()?;
                }
                ("copa", "delta", delta) => options.delta = fixed(delta, 16)?,
                ("verus", "r", ratio) => options.ratio = fixed(ratio, 8)?,
                _ => return None,
            }
        }
        Some(options)
    }

    /// Encodes the options as `struct options`.
    pub fn bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        for (at, word) in [self.delay, self.delta, self.ratio].into_iter().enumerate() {
            bytes[4 * at..][..4].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// From `struct locked_options`; `None`: it is something else.
    pub(crate) fn of_value(value: &[u8]) -> Option<Self> {
        let value = (value.len() == size_of::<LockedOptions>()).then_some(value)?;
        value[4..].first_chunk().map(Self::read)
    }

    /// Decodes `struct options`.
    pub fn read(bytes: &[u8; Self::LEN]) -> Self {
        let word =
            |at: usize| u32::from_ne_bytes(bytes[4 * at..][..4].try_into().expect("four bytes"));
        Self {
            delay: word(0),
            delta: word(1),
            ratio: word(2),
        }
    }
}

/// A control of the kernel and its options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// The control's name, as `TCP_CONGESTION` takes it.
    pub control: String,
    /// The options, if the control is an algorithm of this project.
    pub options: Options,
}

impl Chosen {
    /// The control for an algorithm. `None` if the algorithm has no form in the kernel, or that form lacks an option.
    pub fn of(algorithm: &Spec) -> Option<Self> {
        RESIDENT.contains(&&*algorithm.name).then_some(())?;
        Some(Self {
            control: format!("alcc_{}", algorithm.name),
            options: Options::of(algorithm)?,
        })
    }
}

/// The map of options. Its keys are descriptors, so a process can set only the options of its own sockets.
#[derive(Debug)]
pub struct OptionsMap(OwnedFd);

/// `struct locked_options` of `options.h`.
#[repr(C)]
struct LockedOptions {
    lock: u32,
    options: [u32; 3],
    unused: u32,
}

// SAFETY: integers without padding; any bytes are valid.
unsafe impl Plain for LockedOptions {}

impl OptionsMap {
    /// Opens the map.
    ///
    /// # Errors
    /// `NotFound`: no control with options is loaded. `PermissionDenied`: this process may not use bpf(2).
    pub fn open() -> io::Result<Self> {
        map::<LockedOptions>(MAP, 0).map(Self)
    }

    /// The map itself.
    pub fn as_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Sets the options of the next control of the socket. The kernel bounds their values.
    ///
    /// # Errors
    /// `fd` is not a socket.
    pub fn set(&self, fd: RawFd, options: Options) -> io::Result<()> {
        let mut value = LockedOptions {
            lock: 0,
            options: [options.delay, options.delta, options.ratio],
            unused: 0,
        };
        element(UPDATE, &self.0, fd, &mut value, LOCKED)
    }
}

impl From<&str> for Chosen {
    fn from(control: &str) -> Self {
        Self {
            control: control.to_owned(),
            options: Options::default(),
        }
    }
}

impl From<&Self> for Chosen {
    fn from(chosen: &Self) -> Self {
        chosen.clone()
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.control)?;
        match self.options == Options::default() {
            true => Ok(()),
            false => write!(f, ":{}", self.options),
        }
    }
}

/// A number with `bits` bits behind the point. A value below the smallest step has none.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be within a u32"
)]
fn fixed(text: &str, bits: u32) -> Option<u32> {
    let value = (text.parse::<f64>().ok()? * f64::from(1_u32 << bits)).round();
    (1.0..=f64::from(u32::MAX))
        .contains(&value)
        .then_some(value as u32)
}

/// As a user would type them: `delay=20ms`. Empty: the defaults.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        if self.delay != 0 {
            write!(f, "delay={}", Span::from_micros(self.delay.into()))?;
            before = ",";
        }
        if self.delta != 0 {
            write!(f, "{before}delta={:.4}", f64::from(self.delta) / 65536.0)?;
            before = ",";
        }
        if self.ratio != 0 {
            write!(f, "{before}r={:.2}", f64::from(self.ratio) / 256.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Options> {
        Options::of(&text.parse().unwrap())
    }

    #[test]
    fn what_the_kernel_knows_is_translated() {
        let delay = |delay| Options {
            delay,
            ..Options::default()
        };
        assert_eq!(of("budget:delay=20ms"), Some(delay(20_000)));
        assert_eq!(of("budget"), Some(Options::default()));
        assert_eq!(of("copa:delta=0.5,mode=default").unwrap().delta, 32_768);
        assert_eq!(of("verus:r=1.5,profile=tuned").unwrap().ratio, 384);
        for other in [
            "copa:mode=auto",
            "verus:profile=paper",
            "verus:epoch=5ms",
            "bic:x=1",
            "bic:profile=tuned",
            "copa:delta=0.000001",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        let chosen = |text: &str| Chosen::of(&text.parse().unwrap()).map(|c| c.to_string());
        assert_eq!(
            chosen("budget:delay=20ms").unwrap(),
            "alcc_budget:delay=20ms"
        );
        assert_eq!(chosen("westwood:profile=linux").unwrap(), "alcc_westwood");
        assert_eq!(chosen("sprout"), None);
        assert_eq!(
            Options::read(&of("verus:r=4").unwrap().bytes()),
            of("verus:r=4").unwrap()
        );
    }
}
