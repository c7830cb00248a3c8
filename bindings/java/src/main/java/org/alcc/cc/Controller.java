// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

/**
 * A congestion control algorithm for one flow whose losses another layer repairs: TCP, below the in-band format.
 *
 * <p>Times are nanoseconds since an origin that the host chooses, never negative. They never decrease from call to
 * call, and calls may be late. Events of one instant come in this order: {@link #acked}, {@link #timer}, then
 * {@link #sent}. A controller reads no clock, starts no thread and does no I/O, so equal events give equal answers. It
 * belongs to one flow and is not safe for several threads.
 */
public abstract class Controller {
    /** No limit; for a time, never. */
    public static final long NONE = Long.MAX_VALUE;

    /** Constructor for subclasses. */
    protected Controller() { }

    /**
     * The flow starts. Called once, before everything else.
     *
     * @param now nanoseconds
     * @param mss bytes of a full segment, at least 1
     * @param seed of the controller's random numbers
     */
    public abstract void start(long now, int mss, long seed);

    /**
     * Data is sent.
     *
     * @param now nanoseconds
     * @param length bytes; it may stand for several segments
     * @param inFlightBefore bytes in flight before it
     * @return a value of eight bytes that the acknowledgement returns
     */
    public long sent(long now, long length, long inFlightBefore) {
        return 0;
    }

    /**
     * Data was acknowledged.
     *
     * @param now nanoseconds
     * @param batch at least one packet; valid during the call only
     */
    public abstract void acked(long now, AckBatch batch);

    /**
     * Sending restarts with nothing in flight.
     *
     * @param now nanoseconds
     * @param idle nanoseconds since the last event of the flow, more than a smoothed round trip
     */
    public void idle(long now, long idle) { }

    /**
     * {@link #nextTimer} is due.
     *
     * @param now nanoseconds
     */
    public void timer(long now) { }

    /** @return bytes that may be in flight, at least one segment; {@link #NONE}: no window */
    public abstract long window();

    /** @return bytes that may leave now, whatever is in flight; {@link #NONE}: no quota */
    public long quota() {
        return NONE;
    }

    /** @return bits per second; 0: not paced */
    public long rate() {
        return 0;
    }

    /** @return bytes that may be sent back to back where there is a rate */
    public long burst() {
        return 0;
    }

    /** @return nanoseconds at which {@link #timer} is to be called; {@link #NONE}: never */
    public long nextTimer() {
        return NONE;
    }
}
