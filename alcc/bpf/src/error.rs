// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::path::PathBuf;

/// Error of an operation on the kernel's programs, maps or sockets.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The feature `loader` is disabled.
    #[error(
        "this alcc was built without BPF: install libelf-dev and zlib1g-dev and run 'make build'"
    )]
    NotBuilt,
    /// The process lacks the privilege.
    #[error(
        "{attempt}: not permitted: run it as root (it needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON, for the first mount of /run/alcc-bpf and for rules in force also CAP_SYS_ADMIN)"
    )]
    Forbidden {
        /// The attempted operation.
        attempt: String,
    },
    /// The kernel has no BTF.
    #[error(
        "load the BPF programs: this kernel has no /sys/kernel/btf/vmlinux: it needs one built with \
         CONFIG_DEBUG_INFO_BTF, as the distributions' are"
    )]
    NoBtf,
    /// The kernel's BPF JIT compiler is disabled.
    #[error(
        "load the BPF programs: this kernel's BPF compiler is switched off: switch it on by \
         'sysctl net.core.bpf_jit_enable=1'"
    )]
    NoJit,
    /// Another trial is running.
    #[error(
        "begin the trial: another one of these connections is running: wait for its end, or end it"
    )]
    Busy,
    /// A control of this name already exists.
    #[error(
        "register the congestion control {control}: the name is taken by one whose files are not in {}: run 'alcc bpf \
         unload' where it was loaded (another container or mount namespace)",
        crate::PINS
    )]
    NameTaken {
        /// The name.
        control: &'static str,
    },
    /// Controls of an older version are loaded.
    #[error(
        "load the BPF programs: an older alcc has left its own in {}: end them by 'alcc bpf unload' first",
        path.display()
    )]
    Older {
        /// The folder of its pins.
        path: PathBuf,
    },
    /// Another user could replace the folder of the pins.
    #[error("use {} for what root loads: {why}: remove it, or give it to root alone", path.display())]
    NotOwn {
        /// The folder.
        path: PathBuf,
        /// The part of the path, and the reason.
        why: String,
    },
    /// An operation on a file or folder failed.
    #[error("{attempt} {}: {}", path.display(), words(error))]
    File {
        /// The attempted operation.
        attempt: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The path is not a folder of cgroup version 2.
    #[error(
        "find the cgroup {}: {}: give its folder: {} and what stands behind 0:: in /proc/PID/cgroup of a process in it",
        path.display(),
        words(error),
        crate::all_cgroups().unwrap_or_else(|| "/sys/fs/cgroup".into()).display()
    )]
    NoCgroup {
        /// The given path.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The kernel's list of the controls that every user may select cannot be written.
    #[error(
        "write {list}, which says who may choose a control: {}: run it as root, in the machine's own network namespace",
        words(error)
    )]
    List {
        /// The kernel's file.
        list: &'static str,
        /// The system's error.
        error: std::io::Error,
    },
    /// Any other refusal by the kernel.
    #[error("{attempt}: {error}")]
    Kernel {
        /// The attempted operation.
        attempt: String,
        /// The error of the kernel or libbpf.
        error: String,
    },
}

/// The system's error text, without the number.
fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_owned()
}

impl BpfError {
    /// True if a process or folder does not exist, or no longer does.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::File { error, .. } | Self::NoCgroup { error, .. }
            if error.kind() == std::io::ErrorKind::NotFound)
    }

    #[cfg(feature = "loader")]
    pub(crate) fn kernel(attempt: impl Into<String>, error: &libbpf_rs::Error) -> Self {
        let attempt = attempt.into();
        match error.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => Self::Forbidden { attempt },
            _ => Self::Kernel {
                attempt,
                error: error.to_string(),
            },
        }
    }

    pub(crate) fn file(
        attempt: &'static str,
        path: impl Into<PathBuf>,
        error: std::io::Error,
    ) -> Self {
        let path = path.into();
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => Self::Forbidden {
                attempt: format!("{attempt} {}", path.display()),
            },
            _ => Self::File {
                attempt,
                path,
                error,
            },
        }
    }
}
