// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

/** An acknowledgement: what has arrived, and when. */
public final class Ack {
    /** Most steps of one acknowledgement. */
    public static final int MAX_STEPS = 16;

    private final long position;
    private final int window;
    private final long time;
    private final int hold;
    private final int[] steps;

    /**
     * @param position bytes of counted frames that have arrived, 0 to 2^48 - 1
     * @param window KiB that may be sent beyond, 0 to 2^24 - 1
     * @param time the receiver's clock when the position was reached, microseconds, 0 to 2^32 - 1
     * @param hold microseconds from then until the frame was made, 0 to 2^24 - 1
     * @param steps bytes and microseconds in turns, the newest step first, each 0 to 2^24 - 1
     * @throws IllegalArgumentException if a number is out of its range
     */
    public Ack(long position, int window, long time, int hold, int[] steps) {
        if (position >>> 48 != 0 || window >>> 24 != 0 || time >>> 32 != 0 || hold >>> 24 != 0) {
            throw new IllegalArgumentException("a field of an acknowledgement is out of its range");
        }
        if (steps.length % 2 != 0 || steps.length > 2 * MAX_STEPS) {
            throw new IllegalArgumentException("steps are at most 16 pairs, found " + steps.length + " numbers");
        }
        for (int step : steps) {
            if (step >>> 24 != 0) {
                throw new IllegalArgumentException("a step is at most 2^24 - 1, found " + step);
            }
        }
        this.position = position;
        this.window = window;
        this.time = time;
        this.hold = hold;
        this.steps = steps.clone();
    }

    /** @return bytes of counted frames that have arrived */
    public long position() {
        return position;
    }

    /** @return KiB that may be sent beyond the position */
    public int window() {
        return window;
    }

    /** @return the receiver's clock when the position was reached, microseconds modulo 2^32 */
    public long time() {
        return time;
    }

    /** @return microseconds from then until the frame was made; at most 2^24 - 1, which stands for longer times, too */
    public int hold() {
        return hold;
    }

    /** @return bytes and microseconds in turns, the newest step first */
    public int[] steps() {
        return steps.clone();
    }
}
