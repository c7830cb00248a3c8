// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.nio.ByteBuffer;
import java.nio.charset.Charset;

/** Writes frames at the position of a big-endian buffer, which must have room for them. */
public final class FrameWriter {
    private static final Charset UTF_8 = Charset.forName("UTF-8");

    private FrameWriter() { }

    private static void u24(ByteBuffer out, int number) {
        out.put((byte) (number >> 16)).putShort((short) number);
    }

    private static void head(ByteBuffer out, int type, int length) {
        out.put((byte) type);
        u24(out, length);
    }

    /**
     * What stands before the payload: of a DATA frame, or of a TAGGED one if there is a tag.
     *
     * @param out 8 to 25 bytes are written
     * @param sequence position at which the frame begins, bytes; the low 32 bits are taken
     * @param tag for the receiver module, at most 16 bytes
     * @param payload bytes that the caller appends, 0 to 65536
     * @throws IllegalArgumentException if the tag or the payload is too long
     */
    public static void data(ByteBuffer out, long sequence, byte[] tag, int payload) {
        if (tag.length > FrameReader.MAX_TAG || payload < 0 || payload > FrameReader.MAX_PAYLOAD) {
            throw new IllegalArgumentException("a tag is at most 16 bytes and a payload 0 to 65536, found "
                + tag.length + " and " + payload);
        }
        if (tag.length == 0) {
            // Most frames are these: type, length and sequence in one.
            out.putLong((long) FrameReader.DATA << 56 | (4L + payload) << 32 | sequence & 0xffffffffL);
        } else {
            head(out, FrameReader.TAGGED, 5 + tag.length + payload);
            out.putInt((int) sequence).put((byte) tag.length).put(tag);
        }
    }

    /**
     * An acknowledgement, 20 to 116 bytes.
     *
     * @param out takes the frame
     * @param ack what has arrived
     */
    public static void ack(ByteBuffer out, Ack ack) {
        int[] steps = ack.steps();
        head(out, FrameReader.ACK, 16 + 3 * steps.length);
        out.putShort((short) (ack.position() >> 32)).putInt((int) ack.position());
        u24(out, ack.window());
        out.putInt((int) ack.time());
        u24(out, ack.hold());
        for (int step : steps) {
            u24(out, step);
        }
    }

    /**
     * A report of the receiver module.
     *
     * @param out takes the frame
     * @param report 1 to 64 bytes
     * @throws IllegalArgumentException if it has another length
     */
    public static void report(ByteBuffer out, byte[] report) {
        if (report.length < 1 || report.length > 64) {
            throw new IllegalArgumentException("a report is 1 to 64 bytes, found " + report.length);
        }
        head(out, FrameReader.REPORT, report.length);
        out.put(report);
    }

    /**
     * An end, 9 to 209 bytes. Text beyond 200 bytes is cut off before a character.
     *
     * @param out takes the frame
     * @param sequence position at which the frame begins, bytes
     * @param reason 0 to 255; 0: no more data in this direction
     * @param text why, in words
     */
    public static void close(ByteBuffer out, long sequence, int reason, String text) {
        byte[] words = text.getBytes(UTF_8);
        int n = Math.min(words.length, FrameReader.MAX_TEXT);
        while (n < words.length && (words[n] & 0xc0) == 0x80) {
            n--;
        }
        head(out, FrameReader.CLOSE, 5 + n);
        out.putInt((int) sequence).put((byte) reason).put(words, 0, n);
    }

    /**
     * A PING, or its answer.
     *
     * @param out takes 12 bytes
     * @param answer true: a PONG
     * @param octets eight bytes
     * @throws IllegalArgumentException if there are not eight
     */
    public static void ping(ByteBuffer out, boolean answer, byte[] octets) {
        if (octets.length != 8) {
            throw new IllegalArgumentException("a ping has eight bytes, found " + octets.length);
        }
        head(out, answer ? FrameReader.PONG : FrameReader.PING, 8);
        out.put(octets);
    }
}
