// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::path::PathBuf;

/// Why a plug-in can't be used, and what would help.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The dynamic linker does not take it.
    #[error("plug-in {}: {why}: build it with 'cc -shared -fPIC'", .file.display())]
    Open {
        /// The file.
        file: PathBuf,
        /// What the system or the dynamic linker says.
        why: String,
    },
    /// It is not there, or not to be read.
    #[error("plug-in {}: {why}, and give the path of a shared object", .file.display())]
    Missing {
        /// The file.
        file: PathBuf,
        /// What the system says.
        why: String,
    },
    /// A shared object, but no plug-in.
    #[error("plug-in {}: it exports no alcc_algorithm_v3: define 'const struct alcc_algorithm alcc_algorithm_v3' as alcc.h declares it", .file.display())]
    Symbol {
        /// The file.
        file: PathBuf,
    },
    /// Made for another version.
    #[error("plug-in {}: it is built for plug-in ABI {found}, this is ABI {want}: recompile it with this version's alcc.h, its table named alcc_algorithm_v{want}", .file.display())]
    Abi {
        /// The file.
        file: PathBuf,
        /// What it says.
        found: u32,
        /// What would do.
        want: u32,
    },
    /// The table contains something that does not do.
    #[error("plug-in {}: {what}: {remedy}", .file.display())]
    Table {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        what: String,
        /// What would be right.
        remedy: &'static str,
    },
    /// The algorithm that it adds a profile to has one of that name.
    #[error("plug-in {}: algorithm '{name}' ({owner}) has already a profile '{profile}': give it another name", .file.display())]
    TakenProfile {
        /// The file.
        file: PathBuf,
        /// The algorithm.
        name: String,
        /// The profile.
        profile: String,
        /// Whose the algorithm is.
        owner: String,
    },
    /// Another algorithm has its name.
    #[error("plug-in {}: there is already an algorithm '{name}' ({owner}): give it another name", .file.display())]
    Taken {
        /// The file.
        file: PathBuf,
        /// The name.
        name: String,
        /// Whose it is.
        owner: String,
    },
}
