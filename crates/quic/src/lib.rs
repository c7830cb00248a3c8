// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The algorithms as controllers of a QUIC stack.
