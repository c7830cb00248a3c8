// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of descriptors.
use crate::epoll::{Epoll, EpollFile};
use alcc_socket::Conn;
use std::sync::Arc;

/// The state of a descriptor.
#[derive(Default)]
pub(crate) enum Known {
    /// Unknown.
    #[default]
    Nothing,
    /// Not to be controlled.
    Other,
    /// A socket, perhaps not yet connected, to which nothing was written so far.
    Socket {
        /// True if this program connected it, false if it accepted it; `None`: it was passed to us.
        outbound: Option<bool>,
        /// Registrations made so far.
        epoll: Epoll,
    },
    /// A thread is taking it under control.
    Taken {
        /// Registrations made in the meantime.
        epoll: Epoll,
    },
    /// An epoll instance.
    Epoll(Arc<EpollFile>),
    /// A controlled connection.
    Controlled(Arc<Conn<Epoll>>),
}

/// The descriptors of this process.
pub(crate) type Table = alcc_socket::Table<Known>;
