// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::path::PathBuf;

/// Why the kernel's part could not be done.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The feature `loader` is off.
    #[error(
        "this alcc was built without BPF: install libelf-dev and zlib1g-dev and run 'make build'"
    )]
    NotBuilt,
    /// The process may not.
    #[error(
        "{attempt}: not permitted: run it as root (it needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)"
    )]
    Forbidden {
        /// What was attempted.
        attempt: String,
    },
    /// The kernel does not describe its types.
    #[error(
        "load the BPF programs: this kernel has no /sys/kernel/btf/vmlinux: it needs one built with \
         CONFIG_DEBUG_INFO_BTF, as the distributions' are"
    )]
    NoBtf,
    /// The kernel does not compile BPF programs.
    #[error(
        "load the BPF programs: this kernel's BPF compiler is switched off: switch it on by \
         'sysctl net.core.bpf_jit_enable=1'"
    )]
    NoJit,
    /// Another trial runs.
    #[error(
        "begin the trial: another one of these connections is running: wait for its end, or end it"
    )]
    Busy,
    /// There is a control of this name already.
    #[error(
        "register the congestion control {control}: the name is taken by one whose files are not in {}: run 'alcc bpf \
         unload' where it was loaded (another container or mount namespace)",
        crate::PINS
    )]
    NameTaken {
        /// The name.
        control: &'static str,
    },
    /// An older version has loaded its controls.
    #[error(
        "load the BPF programs: an older alcc has left its own in {}: end them by 'alcc bpf unload' first",
        path.display()
    )]
    Older {
        /// Where.
        path: PathBuf,
    },
    /// The folder of the pins could be exchanged by another user.
    #[error("use {} for what root loads: {why}: remove it, or give it to root alone", path.display())]
    NotOwn {
        /// The folder.
        path: PathBuf,
        /// Which part of it.
        why: String,
    },
    /// A file or folder.
    #[error("{attempt} {}: {}", path.display(), words(error))]
    File {
        /// What was attempted.
        attempt: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// No folder of cgroup version 2.
    #[error(
        "find the cgroup {}: {}: give its folder: {} and what stands behind 0:: in /proc/PID/cgroup of a process in it",
        path.display(),
        words(error),
        crate::all_cgroups().unwrap_or_else(|| "/sys/fs/cgroup".into()).display()
    )]
    NoCgroup {
        /// What was taken for one.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// Anything else that the kernel refused.
    #[error("{attempt}: {error}")]
    Kernel {
        /// What was attempted.
        attempt: String,
        /// What the kernel or libbpf said.
        error: String,
    },
}

/// What the system said, without its number.
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
