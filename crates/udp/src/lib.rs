// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The algorithms over datagrams of our own: the native reference.
