// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.record;

/** Load in each direction, and its duration. Both ends agree on it. */
public final class Plan {
    /** Modes of a measurement. */
    public enum Mode {
        /** Both queues are kept full: what arrives is what the channel can carry. */
        SATURATE,
        /** A constant rate. */
        CONSTANT,
        /** Small packets at a constant distance. */
        PROBE
    }

    /** A load: nothing is sent, except for reports. */
    public static final long NOTHING = 0;
    /** A load: enough to keep the queue full. */
    public static final long AS_MUCH_AS_FITS = -1;
    static final int MIN_SIZE = 128;
    static final int MAX_SIZE = 8972;
    private static final long MS = 1_000_000;

    /** Mode of the measurement. */
    public final Mode mode;
    /** UDP payload of a packet, bytes: 128 to 8972. */
    public final int size;
    /** Headers around it, bytes: 28, or 48 for IPv6. */
    public final int overhead;
    /** Length of the measurement, nanoseconds: 100 ms to 1 h. */
    public final long duration;
    /** Length of the warm-up before it, nanoseconds: at most 60 s. */
    public final long warmUp;
    /** Load to the client: {@link #NOTHING}, {@link #AS_MUCH_AS_FITS}, or nanoseconds between packets, 2 us to 10 s. */
    public final long down;
    /** Load from the client, likewise. */
    public final long up;
    /** Maximum rate of a saturating sender, bit/s: at least 100,000. */
    public final long limit;

    /**
     * A plan, which the other end may refuse.
     *
     * @param mode mode of the measurement
     * @param size UDP payload of a packet, bytes
     * @param overhead headers around it, bytes
     * @param duration length of the measurement, nanoseconds
     * @param warmUp length of the warm-up before it, nanoseconds
     * @param down load towards the client: see {@link #down}
     * @param up load from the client, likewise
     * @param limit maximum rate of a saturating sender, bit/s
     */
    public Plan(Mode mode, int size, int overhead, long duration, long warmUp, long down, long up, long limit) {
        this.mode = mode;
        this.size = size;
        this.overhead = overhead;
        this.duration = duration;
        this.warmUp = warmUp;
        this.down = down;
        this.up = up;
        this.limit = limit;
    }

    /**
     * Both directions saturated, in packets of 1500 bytes with the headers of IPv4, up to 1 Gbit/s.
     *
     * @param durationMs length of the measurement, milliseconds
     * @param warmUpMs length of the warm-up, milliseconds; 10,000 fill the queues of most channels
     * @return a plan
     */
    public static Plan saturate(long durationMs, long warmUpMs) {
        return new Plan(Mode.SATURATE, 1472, 28, durationMs * MS, warmUpMs * MS, AS_MUCH_AS_FITS, AS_MUCH_AS_FITS,
            1_000_000_000);
    }

    /** The same plan with the headers of IPv6, in packets of the same length. */
    Plan overIpv6() {
        int less = Math.max(size + overhead - 48, MIN_SIZE);
        return new Plan(mode, less, 48, duration, warmUp, down, up, limit);
    }

    /**
     * Length of a packet on the link, with headers.
     *
     * @return bytes
     */
    public int ipLength() {
        return size + overhead;
    }

    private static boolean possible(long load) {
        return load == NOTHING || load == AS_MUCH_AS_FITS || load >= 2000 && load <= 10_000 * MS;
    }

    /** The reason why it is impossible; null if it is possible. */
    String problem() {
        if (size < MIN_SIZE || size > MAX_SIZE) {
            return "packets of " + size + " bytes: 128 to 8972 bytes of payload are possible";
        }
        if (overhead != 28 && overhead != 48) {
            return "headers of " + overhead + " bytes: 28 or 48 are possible";
        }
        if (duration < 100 * MS || duration > 3_600_000 * MS) {
            return "a recording of " + duration + " ns: 100 ms to 1 h are possible";
        }
        if (warmUp < 0 || warmUp > 60_000 * MS) {
            return "a warm-up of " + warmUp + " ns: at most 60 s are possible";
        }
        if (down == NOTHING && up == NOTHING) {
            return "nothing is sent in either direction: give one a load";
        }
        if (!possible(down) || !possible(up)) {
            return "a load of " + down + " down and " + up + " up: a packet each 2 us to 10 s is possible";
        }
        if (limit < 100_000 && (down == AS_MUCH_AS_FITS || up == AS_MUCH_AS_FITS)) {
            return "a limit of " + limit + " bit/s: at least 100,000 are possible";
        }
        return null;
    }
}
