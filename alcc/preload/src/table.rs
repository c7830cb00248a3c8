// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptor to connection.
use crate::epoll::{Epoll, EpollFile};
use alcc_socket::Conn;
use std::sync::Arc;

/// What we know of a descriptor.
#[derive(Default)]
pub(crate) enum Known {
    /// Nothing.
    #[default]
    Nothing,
    /// Not to be controlled, whatever it is.
    Other,
    /// A socket, perhaps not yet connected, and nothing was written so far.
    Socket {
        /// Connected by this program and not accepted; `None`: it was handed to us.
        outbound: Option<bool>,
        /// Registrations made so far.
        epoll: Epoll,
    },
    /// A thread is taking it under control.
    Taken {
        /// Registrations made meanwhile.
        epoll: Epoll,
    },
    /// An epoll instance.
    Epoll(Arc<EpollFile>),
    /// A controlled connection.
    Controlled(Arc<Conn<Epoll>>),
}

/// The descriptors of this process.
pub(crate) type Table = alcc_socket::Table<Known>;
