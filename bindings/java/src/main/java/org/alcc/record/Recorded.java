// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.record;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * What one end knows after a recording, and its bytes. Times are nanoseconds of that end's clock; numbers are unsigned.
 */
public final class Recorded {
    private static final int MAX_ARRIVALS = 1 << 24;
    private static final int OPPORTUNITY = 1500;
    private static final long MS = 1_000_000;
    /** Arrivals in a piece of memory. */
    private static final int PIECE = 8192;

    /** Start of the measurement. */
    public long from;
    /** Its end. */
    public long to;
    /** Packets that this end sent, with those of the warm-up. */
    public long sent;
    /** Packets that it left out, since it was held up. */
    public long skipped;
    /** Packets that came, with those of the warm-up. */
    public long received;
    /** Copies of such. */
    public long copies;
    /** Packets that were not kept for want of room. */
    public long beyond;
    /** Packets that the kernel lost on arrival. This library cannot know it of its own end, and says 0. */
    public long overrun;
    /** Lateness of this end's packets, nanoseconds: median, 99th percentile, maximum. */
    public final long[] late = new long[3];

    private final List<long[]> pieces = new ArrayList<long[]>();
    private int count;

    void add(long seq, long sentAt, long came) {
        if (count % PIECE == 0) {
            pieces.add(new long[3 * PIECE]);
        }
        long[] piece = pieces.get(count / PIECE);
        int at = 3 * (count % PIECE);
        piece[at] = seq;
        piece[at + 1] = sentAt;
        piece[at + 2] = came;
        count++;
    }

    /**
     * How many arrivals it has, in the order of coming and all within what counts.
     *
     * @return from 0
     */
    public int count() {
        return count;
    }

    private long field(int n, int which) {
        if (n < 0 || n >= count) {
            throw new IndexOutOfBoundsException("arrival " + n + " of " + count);
        }
        return pieces.get(n / PIECE)[3 * (n % PIECE) + which];
    }

    /**
     * The number of a packet.
     *
     * @param n which arrival
     * @return from 0
     */
    public long seq(int n) {
        return field(n, 0);
    }

    /**
     * Time at which a packet was sent.
     *
     * @param n which arrival
     * @return nanoseconds of its sender's clock
     */
    public long sentAt(int n) {
        return field(n, 1);
    }

    /**
     * When a packet came.
     *
     * @param n which arrival
     * @return nanoseconds of this end's clock
     */
    public long came(int n) {
        return field(n, 2);
    }

    /**
     * The times of arrival as a Mahimahi trace. It has a line for each 1500 IP bytes: the millisecond in which the
     * packet came that completes them.
     *
     * @param to where
     * @param ipLength bytes of each packet with its headers: {@link Plan#ipLength}
     * @throws IOException of what is written to
     */
    public void writeTrace(Appendable to, int ipLength) throws IOException {
        long[] times = new long[count];
        for (int i = 0; i < count; i++) {
            times[i] = came(i) - from;
        }
        Arrays.sort(times);
        long bytes = 0;
        for (long time : times) {
            bytes += ipLength;
            for (; bytes >= OPPORTUNITY; bytes -= OPPORTUNITY) {
                to.append(Long.toString(time / MS)).append('\n');
            }
        }
    }

    /**
     * As bytes.
     *
     * @return some eight for each arrival
     */
    public byte[] encode() {
        ByteArrayOutputStream out = new ByteArrayOutputStream(100 + 8 * count);
        for (long n : new long[] {from, to, sent, skipped, received, copies, beyond, overrun, late[0], late[1],
            late[2], count}) {
            write(out, n);
        }
        long[] last = {0, 0, from};
        for (int i = 0; i < count; i++) {
            for (int k = 0; k < 3; k++) {
                long step = field(i, k) - last[k];
                write(out, step << 1 ^ step >> 63);
                last[k] = field(i, k);
            }
        }
        return out.toByteArray();
    }

    private static void write(ByteArrayOutputStream out, long n) {
        long remaining = n;
        for (; (remaining & ~0x7fL) != 0; remaining >>>= 7) {
            out.write((int) remaining & 0x7f | 0x80);
        }
        out.write((int) remaining);
    }

    /**
     * Reads what {@link #encode} writes. It takes no more memory than the bytes are worth.
     *
     * @param bytes all of it
     * @return null if it is not a recording
     */
    public static Recorded decode(byte[] bytes) {
        try {
            return read(ByteBuffer.wrap(bytes));
        } catch (BufferUnderflowException e) {
            return null;
        }
    }

    private static Recorded read(ByteBuffer in) {
        Recorded recorded = new Recorded();
        recorded.from = number(in);
        recorded.to = number(in);
        recorded.sent = number(in);
        recorded.skipped = number(in);
        recorded.received = number(in);
        recorded.copies = number(in);
        recorded.beyond = number(in);
        recorded.overrun = number(in);
        for (int i = 0; i < 3; i++) {
            recorded.late[i] = number(in);
        }
        long count = number(in);
        // Three numbers of at least a byte each.
        if (count < 0 || count > MAX_ARRIVALS || count > in.remaining() / 3) {
            return null;
        }
        long seq = 0;
        long sentAt = 0;
        long came = recorded.from;
        for (long i = 0; i < count; i++) {
            seq += step(in);
            sentAt += step(in);
            came += step(in);
            if (Session.less(came, recorded.from) || !Session.less(came, recorded.to)) {
                return null;
            }
            recorded.add(seq, sentAt, came);
        }
        return in.hasRemaining() ? null : recorded;
    }

    /** Seven bits a byte. A number of more than 64 bits is treated as a truncated one. */
    private static long number(ByteBuffer in) {
        long n = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            byte octet = in.get();
            long part = octet & 0x7f;
            if (part << shift >>> shift != part) {
                break;
            }
            n |= part << shift;
            if (octet >= 0) {
                return n;
            }
        }
        throw new BufferUnderflowException();
    }

    private static long step(ByteBuffer in) {
        long n = number(in);
        return n >>> 1 ^ -(n & 1);
    }
}
