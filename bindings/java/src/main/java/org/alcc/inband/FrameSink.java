// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.nio.ByteBuffer;

/** Hears the frames that a {@link FrameReader} finds. */
public interface FrameSink {
    /**
     * A frame with data begins.
     *
     * @param sequence low 32 bits of the position at which it begins
     * @param tag for the receiver module; empty: a DATA frame
     * @param payload bytes that follow
     */
    void data(long sequence, byte[] tag, int payload);

    /**
     * Some of the payload.
     *
     * @param piece valid during the call only
     */
    void payload(ByteBuffer piece);

    /** @param ack what the peer has */
    void ack(Ack ack);

    /** @param report 1 to 64 bytes of the receiver module */
    void report(byte[] report);

    /**
     * An end.
     *
     * @param sequence as in data
     * @param reason 0: of this direction's data; others end the connection
     * @param text what is not UTF-8 is replaced
     * @param length bytes of the whole frame
     */
    void close(long sequence, int reason, String text, int length);

    /** @param octets eight bytes to be sent back */
    void ping(byte[] octets);

    /** @param octets the eight bytes of a ping */
    void pong(byte[] octets);

    /** @param type 128 to 255, a frame that is skipped */
    void unknown(int type);
}
