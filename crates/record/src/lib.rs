// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measuring a real channel: saturate it, and write down what it could carry.
