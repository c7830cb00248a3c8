// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.nio.ByteBuffer;

/** Bytes in a ring that grows with what is in it and is given back when it is empty. */
final class ByteQueue {
    private static final byte[] EMPTY = new byte[0];
    private static final int KEPT = 65536;

    private byte[] ring = EMPTY;
    private int first;
    private int size;

    int size() {
        return size;
    }

    /** Takes all of {@code in}. */
    void put(ByteBuffer in) {
        int n = in.remaining();
        if (n > ring.length - size) {
            grow(size + n);
        }
        int at = first + size < ring.length ? first + size : first + size - ring.length;
        int toEnd = Math.min(n, ring.length - at);
        in.get(ring, at, toEnd);
        in.get(ring, 0, n - toEnd);
        size += n;
    }

    private void grow(int least) {
        byte[] larger = new byte[Math.max(least, Math.max(4096, 2 * ring.length))];
        int n = size;
        take(larger, 0, n);
        ring = larger;
        first = 0;
        size = n;
    }

    /** @return how many there were, at most {@code n} */
    int take(byte[] into, int at, int n) {
        int taken = Math.min(n, size);
        int toEnd = Math.min(taken, ring.length - first);
        System.arraycopy(ring, first, into, at, toEnd);
        System.arraycopy(ring, 0, into, at + toEnd, taken - toEnd);
        size -= taken;
        first += taken;
        if (first >= ring.length) {
            first -= ring.length;
        }
        if (size == 0) {
            first = 0;
            if (ring.length > KEPT) {
                ring = EMPTY;
            }
        }
        return taken;
    }
}
