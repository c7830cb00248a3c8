// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::path::PathBuf;

/// Error of a plug-in that cannot be used, with a remedy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The dynamic linker refuses the file.
    #[error("plug-in {}: {why}: build it with 'cc -shared -fPIC'", .file.display())]
    Open {
        /// The file.
        file: PathBuf,
        /// The error of the system or of the dynamic linker.
        why: String,
    },
    /// The file does not exist, or cannot be read.
    #[error("plug-in {}: {why}, and give the path of a shared object", .file.display())]
    Missing {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        why: String,
    },
    /// The file is a shared object, but not a plug-in.
    #[error("plug-in {}: it exports no alcc_algorithm_v3: define 'const struct alcc_algorithm alcc_algorithm_v3' as alcc.h declares it", .file.display())]
    Symbol {
        /// The file.
        file: PathBuf,
    },
    /// The plug-in was made for another version of the interface.
    #[error("plug-in {}: it is built for plug-in ABI {found}, this is ABI {want}: recompile it with this version's alcc.h, its table named alcc_algorithm_v{want}", .file.display())]
    Abi {
        /// The file.
        file: PathBuf,
        /// The version of the plug-in.
        found: u32,
        /// The version required.
        want: u32,
    },
    /// The plug-in's table is invalid.
    #[error("plug-in {}: {what}: {remedy}", .file.display())]
    Table {
        /// The file.
        file: PathBuf,
        /// The invalid part.
        what: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// The algorithm to which it adds a profile already has one of that name.
    #[error("plug-in {}: algorithm '{name}' ({owner}) has already a profile '{profile}': give it another name", .file.display())]
    TakenProfile {
        /// The file.
        file: PathBuf,
        /// The algorithm.
        name: String,
        /// The profile.
        profile: String,
        /// The origin of the algorithm.
        owner: String,
    },
    /// The name is that of another algorithm.
    #[error("plug-in {}: there is already an algorithm '{name}' ({owner}): give it another name", .file.display())]
    Taken {
        /// The file.
        file: PathBuf,
        /// The name.
        name: String,
        /// The origin of that algorithm.
        owner: String,
    },
}
