// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Privileges for making network namespaces, with and without root.
use crate::{EmuError, Namespace, netlink};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{getegid, geteuid};
use std::fs;

const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;

/// Result of [`prepare`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Privilege {
    /// The process may administer its network namespace; nothing was changed.
    Full,
    /// The process is now in its own user namespace, and in a new network namespace with only a
    /// loopback device. It keeps its user and group id, and its children keep the capabilities
    /// (they are ambient).
    UserNamespace,
}

/// Ensures that this process may create namespaces and devices. It must be called while the process
/// has one thread.
///
/// With CAP_SYS_ADMIN and CAP_NET_ADMIN over the current network namespace it does nothing.
/// Otherwise it enters a new user namespace and a new network namespace.
///
/// # Errors
/// [`EmuError::NotPermitted`] with the setting of the machine that forbids it and the remedy;
/// [`EmuError::Threads`].
pub fn prepare() -> Result<Privilege, EmuError> {
    if administers_current() {
        return Ok(Privilege::Full);
    }
    let (uid, gid) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).map_err(|e| match e {
        nix::Error::EINVAL => EmuError::Threads,
        _ => not_permitted(&format!(
            "the kernel refuses a user namespace ({})",
            e.desc()
        )),
    })?;
    // Identity, not root, because some programs behave differently as root (nginx changes its user,
    // which cannot work here).
    let map = |file: &str, text: String| {
        fs::write(file, text).map_err(|e| not_permitted(&format!("write {file}: {e}")))
    };
    map("/proc/self/setgroups", "deny".to_owned())?;
    map("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    map("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    keep_capabilities_over_exec()?;
    netlink::loopback_up()
        .map_err(|e| not_permitted(&format!("the new namespace is not ours: {e}")))?;
    Ok(Privilege::UserNamespace)
}

/// Checks whether emulation works here, by making a link and dropping it. Without privileges a
/// child process tries to make a user namespace. The caller is not changed and may have threads.
///
/// # Errors
/// The errors of [`prepare`] and of making a link.
pub fn available() -> Result<(), EmuError> {
    if administers_current() {
        let (outside, inside) = (Namespace::new()?, Namespace::new()?);
        let net = crate::Subnet::default();
        let spec = crate::PathSpec::default();
        return crate::Emulator::start(&outside, &inside, net, spec, Box::new(crate::Silent))?
            .stop()
            .map(|_| ());
    }
    // Some systems permit the namespace but not the mapping of a user, so both have to be tried.
    let map = format!("{uid} {uid} 1", uid = geteuid());
    // SAFETY: the child of a process with threads may make only system calls, and does; it ends by
    // _exit.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: plain system calls; pointers and lengths are those of constants and of `map`.
        unsafe {
            let entered = libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) == 0;
            let file = libc::open(c"/proc/self/uid_map".as_ptr(), libc::O_WRONLY);
            let mapped = libc::write(file, map.as_ptr().cast(), map.len()) == map.len() as isize;
            libc::_exit(i32::from(!(entered && mapped)));
        }
    }
    if pid < 0 {
        return Err(EmuError::os("fork")(std::io::Error::last_os_error()));
    }
    match nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None) {
        Ok(nix::sys::wait::WaitStatus::Exited(_, 0)) => Ok(()),
        _ => Err(not_permitted("the kernel refuses a user namespace")),
    }
}

/// True if this process may change its network namespace and make others.
fn administers_current() -> bool {
    let Some(effective) = capabilities().map(|c| c[0].effective) else {
        return false;
    };
    if effective & (1 << CAP_NET_ADMIN) == 0 || effective & (1 << CAP_SYS_ADMIN) == 0 {
        return false;
    }
    // Capabilities count only over namespaces that our user namespace owns, and entering our own
    // namespace checks exactly that.
    fs::File::open("/proc/thread-self/ns/net")
        .is_ok_and(|own| setns(own, CloneFlags::CLONE_NEWNET).is_ok())
}

#[repr(C)]
struct CapHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// `_LINUX_CAPABILITY_VERSION_3` of linux/capability.h.
const CAP_VERSION: u32 = 0x2008_0522;

fn capabilities() -> Option<[CapData; 2]> {
    let header = CapHeader {
        version: CAP_VERSION,
        pid: 0,
    };
    let mut data = [CapData::default(); 2];
    // SAFETY: version 3 fills two elements; both pointers are valid for the call.
    let ok = unsafe { libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr()) } == 0;
    ok.then_some(data)
}

/// Without this, a process that is not root loses its capabilities at every exec, and a nested
/// emulator would have none.
fn keep_capabilities_over_exec() -> Result<(), EmuError> {
    let failed = || {
        EmuError::os("keep the capabilities of the user namespace")(std::io::Error::last_os_error())
    };
    let mut data = capabilities().ok_or_else(failed)?;
    for half in &mut data {
        half.inheritable = half.permitted;
    }
    let header = CapHeader {
        version: CAP_VERSION,
        pid: 0,
    };
    // SAFETY: as in capabilities().
    if unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) } != 0 {
        return Err(failed());
    }
    for cap in 0..64u32 {
        if data[(cap / 32) as usize].permitted & (1 << (cap % 32)) == 0 {
            continue;
        }
        // SAFETY: no pointers.
        if unsafe {
            libc::prctl(
                libc::PR_CAP_AMBIENT,
                libc::PR_CAP_AMBIENT_RAISE,
                libc::c_ulong::from(cap),
                0 as libc::c_ulong,
                0 as libc::c_ulong,
            )
        } != 0
        {
            return Err(failed());
        }
    }
    Ok(())
}

/// Drops the capabilities of [`Privilege::UserNamespace`] for a program that this process starts.
/// It must be called between fork and exec, and does nothing for root.
///
/// # Errors
/// The error of the kernel.
pub fn drop_ambient_capabilities() -> std::io::Result<()> {
    let none = 0 as libc::c_ulong;
    // SAFETY: no pointers.
    let done = unsafe {
        libc::prctl(
            libc::PR_CAP_AMBIENT,
            libc::PR_CAP_AMBIENT_CLEAR_ALL,
            none,
            none,
            none,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// The error with the setting that causes it, as far as the machine shows that.
fn not_permitted(found: &str) -> EmuError {
    let setting = |path: &str| fs::read_to_string(path).map(|s| s.trim().to_owned()).ok();
    let is = |path: &str, value: &str| setting(path).as_deref() == Some(value);
    let fix = if is("/proc/sys/user/max_user_namespaces", "0") {
        "run it as root, or allow user namespaces: sysctl -w user.max_user_namespaces=10000"
    } else if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "run it as root, or allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1"
    } else if is(
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
    ) {
        "run it as root, or allow user namespaces: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    } else {
        "run it as root; in a container start that with the capabilities SYS_ADMIN and NET_ADMIN (docker: --privileged)"
    };
    EmuError::NotPermitted {
        found: found.to_owned(),
        fix: fix.to_owned(),
    }
}
