// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands of those sections of pages that load programs into the kernel: for all of the machine, so nothing else
//! does so meanwhile. What they load ends with the namespace in which its files are.
#[path = "../../../alcc/cli/tests/support/built.rs"]
mod built;
mod console;
#[path = "../../../alcc/bpf/tests/support/mod.rs"]
mod controls;
#[path = "../../../alcc/cli/tests/support/lacks.rs"]
mod lacks;
#[path = "console/page.rs"]
mod page;
#[path = "../../../alcc/cli/tests/support/root.rs"]
mod root;

#[test]
fn the_commands_of_the_pages_work() {
    if page::impossible() {
        return;
    }
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        println!("skipped: needs BTF");
        return;
    }
    let _alone = controls::controls_alone();
    let ran = page::run_all(true);
    println!("{ran} commands ran");
    assert!(ran >= 25, "only {ran} commands ran");
}
