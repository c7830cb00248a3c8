// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Identification of the program's build.
use crate::hash_of_files;

/// The build ID of the running program. Without one it is the SHA-256 of the file, which takes
/// longer.
pub fn build() -> String {
    let own = std::env::current_exe().unwrap_or_default();
    alcc_files::build_id(&own).unwrap_or_else(|| hash_of_files([own.as_path()]))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_program_has_a_build() {
        let build = super::build();
        assert!(
            build.len() >= 16 && build.chars().all(|c| c.is_ascii_hexdigit()),
            "{build}"
        );
        assert_eq!(build, super::build());
    }
}
