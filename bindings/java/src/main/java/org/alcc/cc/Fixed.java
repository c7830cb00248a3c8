// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

/** A window that never changes: the example to copy. */
public final class Fixed extends Controller {
    private final int packets;
    private long mss = 1;

    /**
     * A fixed window.
     *
     * @param packets in flight, 1 to 1000000
     * @throws IllegalArgumentException if it is another number
     */
    public Fixed(int packets) {
        if (packets < 1 || packets > 1_000_000) {
            throw new IllegalArgumentException("a window is 1 to 1000000 packets, found " + packets);
        }
        this.packets = packets;
    }

    @Override
    public void start(long now, int segment, long seed) {
        mss = segment;
    }

    @Override
    public void acked(long now, AckBatch batch) { }

    @Override
    public long window() {
        return mss * packets;
    }
}
