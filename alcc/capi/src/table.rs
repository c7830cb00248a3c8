// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of descriptors.
use alcc_socket::own::{Options, Stream};
use std::sync::Arc;
use std::time::Duration;

/// The entry of a descriptor.
#[derive(Default)]
pub(crate) enum Known {
    /// Not used by this process, but perhaps by its parent.
    #[default]
    Unused,
    /// Not a stream.
    Nothing,
    Entry(Entry),
}

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) what: What,
    /// Settings of this descriptor alone.
    pub(crate) options: Options,
    pub(crate) patience: Option<Duration>,
}

#[derive(Clone)]
pub(crate) enum What {
    /// Connecting, or a stream of the parent: it becomes a stream at its first use.
    Pending,
    Stream(Arc<Stream>),
}

/// The descriptors of this process.
pub(crate) type Table = alcc_socket::Table<Known>;

/// Settings of a descriptor before it is a stream.
impl Entry {
    pub(crate) fn pending(options: Options, patience: Option<Duration>) -> Self {
        let what = What::Pending;
        Self {
            what,
            options,
            patience,
        }
    }
}
