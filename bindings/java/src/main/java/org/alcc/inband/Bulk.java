// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

/** Whether so much comes that pauses let a reading bring more. */
final class Bulk {
    /** So much within so many nanoseconds. */
    private static final int BYTES = 16 * 1024;
    private static final long OVER = 10_000_000;

    /** What has come since then, and whether as much came before. */
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
