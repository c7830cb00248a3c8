// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.record;

/** Results of a recording. */
public final class Recording {
    /** Ends of a recording. */
    public enum End {
        /** As planned. */
        COMPLETE,
        /** The other end fell silent. */
        SILENT,
        /** The other end left early. */
        LEFT,
        /** {@link Recorder#stop} was called. */
        STOPPED
    }

    /** The plan that both ends agreed on. */
    public final Plan plan;
    /** The end of this recording. */
    public final End end;
    /** Arrivals at this end. Beginning and end are 0 if sending never began. */
    public final Recorded down;
    /** Arrivals at the listener; null if they were not fetched completely, or are not a recording. */
    public final Recorded up;

    Recording(Plan plan, End end, Recorded down, Recorded up) {
        this.plan = plan;
        this.end = end;
        this.down = down;
        this.up = up;
    }

    /**
     * True if the recording is complete.
     *
     * @return false if a part may be missing
     */
    public boolean isComplete() {
        return end == End.COMPLETE && up != null;
    }

    /**
     * Number of packets that arrived but could not be stored; if there are any, a trace is not faithful.
     *
     * @return the number for both directions, as far as it is known
     */
    public long missed() {
        return down.beyond + (up == null ? 0 : up.beyond + up.overrun);
    }
}
