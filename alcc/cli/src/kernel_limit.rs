// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks whether this machine's kernel can run an algorithm, or enforce its window and rate, by itself.
use crate::output::note;
use alcc_cc::Spec;
use alcc_sys::{Chosen, Options, OptionsMap, PINS, Steered, WINDOW_CONTROL};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::path::Path;

const NOT_FOR_THIS_USER: &str = "is loaded, but not for this user";
const WHO: &str = "root permits a group of users by 'alcc bpf load --group'";

/// Notes in one line that this user cannot use the loaded [`WINDOW_CONTROL`], unless an option chose the
/// enforcement.
pub(crate) fn note_if_refused(enforce: &str, under: Option<&str>) {
    let is_refused = || Steered::open().is_err_and(|e| e.kind() == ErrorKind::PermissionDenied);
    if enforce == "auto" && under.is_none() && is_refused() {
        note(format_args!(
            "alcc: {WINDOW_CONTROL} {NOT_FOR_THIS_USER}: the gate enforces the window instead ({WHO})"
        ));
    }
}

/// # Errors
/// The reason, with a hint.
pub(crate) fn available(under: Option<&str>) -> Result<(), String> {
    if let Some(under) = under {
        return Err(format!(
            "'bpf' of --feedback or --enforce selects the kernel's congestion control {WINDOW_CONTROL}, and --under {under} selects another: omit one of them"
        ));
    }
    let Err(why) = Steered::open() else {
        return Ok(());
    };
    let why = match why.kind() {
        ErrorKind::NotFound => "is not loaded: load it once as root: alcc bpf load".to_owned(),
        ErrorKind::PermissionDenied => format!("{NOT_FOR_THIS_USER}: {WHO}"),
        _ => format!("cannot be used ({why})"),
    };
    Err(format!(
        "'bpf' of --feedback or --enforce needs the congestion control {WINDOW_CONTROL}, which {why}, or leave the option out"
    ))
}

/// Checks that the kernel can run this algorithm for sockets of this user. `asks`: an option that needs an
/// algorithm in the program.
///
/// # Errors
/// The reason, with a hint.
pub(crate) fn runs(cc: &Spec, under: Option<&str>, asks: Option<&str>) -> Result<(), String> {
    if let Some(under) = under {
        return Err(format!(
            "--enforce kernel selects the kernel's form of {}, and --under {under} another control: leave one of them out",
            cc.name
        ));
    }
    if let Some(asks) = asks {
        return Err(format!(
            "the kernel's form of {} does not report what {asks} needs: leave one of them out",
            cc.name
        ));
    }
    let Some(Chosen { control, options }) = Chosen::of(cc) else {
        let there: Vec<_> = alcc_bpf::RESIDENT.iter().map(|r| r.algorithm).collect();
        return Err(format!(
            "the kernel has no form of {cc} (see docs/attach.md; without options it has {})",
            there.join(", ")
        ));
    };
    if !is_loaded(&control) {
        return Err(format!(
            "{control} is not loaded: load it once as root: alcc bpf load"
        ));
    }
    if options != Options::default()
        && let Err(why) = OptionsMap::open()
    {
        return Err(format!(
            "{control} cannot get the options of {cc} here ({why}): leave them out"
        ));
    }
    is_allowed(&control)
}

/// True if root has loaded this control, and this process can see it.
pub(crate) fn is_loaded(control: &str) -> bool {
    let pin = |end| Path::new(PINS).join(format!("{control}-{end}"));
    ["link", "ops"].into_iter().any(|end| pin(end).exists())
}

/// Checks whether the kernel accepts this control for a socket of this user.
fn is_allowed(control: &str) -> Result<(), String> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
    let none = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Inet, SockType::Stream, none, None);
    let set = socket.map(|socket| alcc_sys::set_under(socket.as_raw_fd(), control));
    match set {
        Ok(Ok(())) => Ok(()),
        Ok(Err(nix::libc::EPERM)) => Err(format!(
            "{control} {NOT_FOR_THIS_USER}: root permits all users by 'alcc bpf load --users all'"
        )),
        Ok(Err(why)) => Err(format!(
            "{control} is refused ({})",
            std::io::Error::from_raw_os_error(why)
        )),
        Err(why) => Err(format!("{control} cannot be tried ({why})")),
    }
}
