// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

/** SplitMix64 (Steele et al. 2014): the numbers of the other languages' implementations. Not for secrets. */
final class Random64 {
    private long state;

    Random64(long seed) {
        state = seed;
    }

    long next() {
        state += 0x9E3779B97F4A7C15L;
        long z = state;
        z = (z ^ z >>> 30) * 0xBF58476D1CE4E5B9L;
        z = (z ^ z >>> 27) * 0x94D049BB133111EBL;
        return z ^ z >>> 31;
    }

    /** @return a number from 0 to below 1 */
    double unit() {
        return (next() >>> 11) / (double) (1L << 53);
    }
}
