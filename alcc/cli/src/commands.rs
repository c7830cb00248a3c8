// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One module per command: its arguments (which are also its help, man page and completions) and
//! its `run`.
pub(crate) mod attach;
pub(crate) mod bpf;
pub(crate) mod ctl;
pub(crate) mod doctor;
pub mod list;
pub(crate) mod log;
pub(crate) mod off;
pub(crate) mod policy;
pub(crate) mod proxy;
pub mod recv;
pub(crate) mod run;
pub mod send;
pub(crate) mod top;
pub(crate) mod trial;
