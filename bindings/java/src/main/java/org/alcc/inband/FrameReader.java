// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.nio.ByteBuffer;
import java.nio.charset.Charset;
import java.util.Arrays;

/** Finds frames in bytes that come in any pieces. Keeps no payload and at most 209 bytes. */
public final class FrameReader {
    static final int DATA = 1;
    static final int TAGGED = 2;
    static final int ACK = 3;
    static final int REPORT = 4;
    static final int CLOSE = 5;
    static final int PING = 6;
    static final int PONG = 7;
    static final int HEAD = 4;
    static final int MAX_PAYLOAD = 65536;
    static final int MAX_TAG = 16;
    static final int MAX_TEXT = 200;

    private static final Charset UTF_8 = Charset.forName("UTF-8");

    private final byte[] kept = new byte[HEAD + 5 + MAX_TEXT];
    private int have;
    private int need = HEAD;
    /** Bytes of payload, or to be skipped, that are still to come. */
    private int remaining;
    private boolean skips;
    private AlccException failed;

    /**
     * Takes all bytes of {@code in} and passes their frames to {@code sink}.
     *
     * @param in what has come
     * @param sink gets the frames
     * @throws AlccException PROTOCOL; from then on each call throws it again
     */
    public void feed(ByteBuffer in, FrameSink sink) throws AlccException {
        if (failed != null) {
            throw failed;
        }
        try {
            while (in.hasRemaining()) {
                if (remaining > 0) {
                    body(in, sink);
                } else {
                    int n = Math.min(need - have, in.remaining());
                    in.get(kept, have, n);
                    have += n;
                    if (have == need) {
                        collected(sink);
                    }
                }
            }
        } catch (AlccException e) {
            failed = e;
            throw e;
        }
    }

    /** @return true if nothing of a frame has come without its end */
    public boolean isBetweenFrames() {
        return have == 0 && remaining == 0;
    }

    private void body(ByteBuffer in, FrameSink sink) {
        int n = Math.min(remaining, in.remaining());
        ByteBuffer piece = in.slice();
        piece.limit(n);
        in.position(in.position() + n);
        remaining -= n;
        if (!skips) {
            sink.payload(piece);
        }
    }

    private void begin(int body, boolean skipped) {
        have = 0;
        need = HEAD;
        remaining = body;
        skips = skipped;
    }

    private int u24(int at) {
        return (kept[at] & 255) << 16 | (kept[at + 1] & 255) << 8 | kept[at + 2] & 255;
    }

    private long u32(int at) {
        return (long) (kept[at] & 255) << 24 | u24(at + 1);
    }

    /** Bytes after the head that are needed before the type of a frame is known. */
    private int wanted(int type, int length) throws AlccException {
        boolean right;
        int wanted = length;
        switch (type) {
            case DATA:
                right = length >= 4 && length <= 4 + MAX_PAYLOAD;
                wanted = 4;
                break;
            case TAGGED:
                right = length >= 6 && length <= 5 + MAX_TAG + MAX_PAYLOAD;
                wanted = 5;
                break;
            case ACK:
                right = length >= 16 && length <= 16 + 6 * Ack.MAX_STEPS && (length - 16) % 6 == 0;
                break;
            case REPORT:
                right = length >= 1 && length <= 64;
                break;
            case CLOSE:
                right = length >= 5 && length <= 5 + MAX_TEXT;
                break;
            case PING:
            case PONG:
                right = length == 8;
                break;
            default:
                if (type < 0x80) {
                    throw AlccException.protocol("a frame of the unknown type " + type);
                }
                right = length <= MAX_PAYLOAD;
        }
        if (!right) {
            throw AlccException.protocol("a frame of type " + type + " with " + length + " bytes");
        }
        return wanted;
    }

    private void collected(FrameSink sink) throws AlccException {
        int type = kept[0] & 255;
        int length = u24(1);
        if (have == HEAD) {
            int wanted = wanted(type, length);
            if (type >= 0x80) {
                sink.unknown(type);
                begin(length, true);
            } else {
                need = HEAD + wanted;
            }
            return;
        }
        switch (type) {
            case DATA:
                sink.data(u32(HEAD), new byte[0], length - 4);
                begin(length - 4, false);
                return;
            case TAGGED:
                int tag = kept[8] & 255;
                int payload = length - 5 - tag;
                if (tag < 1 || tag > MAX_TAG || payload < 0 || payload > MAX_PAYLOAD) {
                    throw AlccException.protocol("a tag of " + tag + " bytes in a frame of " + length);
                }
                if (have == HEAD + 5) {
                    need = HEAD + 5 + tag;
                    return;
                }
                sink.data(u32(HEAD), Arrays.copyOfRange(kept, HEAD + 5, have), payload);
                begin(payload, false);
                return;
            case ACK:
                sink.ack(ack(length));
                break;
            case REPORT:
                sink.report(Arrays.copyOfRange(kept, HEAD, have));
                break;
            case CLOSE:
                String text = new String(kept, HEAD + 5, length - 5, UTF_8);
                sink.close(u32(HEAD), kept[8] & 255, text, have);
                break;
            case PING:
                sink.ping(Arrays.copyOfRange(kept, HEAD, have));
                break;
            default:
                sink.pong(Arrays.copyOfRange(kept, HEAD, have));
        }
        begin(0, false);
    }

    private Ack ack(int length) {
        int[] steps = new int[(length - 16) / 3];
        for (int i = 0; i < steps.length; i++) {
            steps[i] = u24(20 + 3 * i);
        }
        return new Ack((long) u24(4) << 24 | u24(7), u24(10), u32(13), u24(17), steps);
    }
}
