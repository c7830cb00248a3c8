// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A user other than root needs a user namespace, which a process can enter only before its first
//! thread, and the test harness creates threads.

extern "C" fn prepare() {
    // What is wrong is said where it is needed.
    drop(alcc_emu::prepare());
}

#[used]
// SAFETY: the section holds functions that are called before main.
#[unsafe(link_section = ".init_array")]
static PREPARE: extern "C" fn() = prepare;
