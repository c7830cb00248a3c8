// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One self-contained, offline, interactive HTML page from [`crate::Results`].
