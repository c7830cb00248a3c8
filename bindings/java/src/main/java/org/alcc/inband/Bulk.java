// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

/** Detects bulk data, for which pauses let a reading get more. */
final class Bulk {
    /** Threshold: bytes per time (nanoseconds). */
    private static final int BYTES = 16 * 1024;
    private static final long OVER = 10_000_000;

    /** Bytes since then, and whether as many came before. */
    private long counted;
    private long count;
    private boolean streams;

    /** A conversation is not paused for, and begins with less. */
    boolean isStream(int n, long now) {
        long over = now - counted;
        if (over > OVER) {
            streams = count >= BYTES && over < 4 * OVER;
            counted = now;
            count = 0;
        }
        count += Math.max(n, 0);
        return streams || n >= BYTES;
    }
}
