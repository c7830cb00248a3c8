// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.Charset;

/** The bytes at the start of each direction. */
public final class Preface {
    /** Longest name of an algorithm, bytes of UTF-8. */
    public static final int MAX_NAME = 200;
    /** Longest preface, bytes. */
    public static final int MAX_LENGTH = 1024;

    private static final byte[] MAGIC = {'A', 'L', 'C', 'C', '\r', '\n', 0x1a, '\n'};
    private static final int VERSION = 1;
    private static final int FIXED = 28;
    private static final int HEAD = 12;
    private static final Charset UTF_8 = Charset.forName("UTF-8");

    private final long credit;
    private final long ackDelay;
    private final int segment;
    private final String algorithm;

    /**
     * @param credit position up to which the peer may send, bytes; unsigned
     * @param ackDelay acknowledgements are wanted no later than this after an arrival, microseconds, 0 to 2^32 - 1
     * @param segment bytes of counted frames in a segment, 1 to 65535
     * @param algorithm whose receiver module the peer must run; empty: none
     * @throws IllegalArgumentException if a value is out of its range
     */
    public Preface(long credit, long ackDelay, int segment, String algorithm) {
        if (ackDelay >>> 32 != 0 || segment < 1 || segment > 65535) {
            throw new IllegalArgumentException("the delay is at most 2^32 - 1 and a segment 1 to 65535 bytes");
        }
        if (algorithm.getBytes(UTF_8).length > MAX_NAME) {
            throw new IllegalArgumentException("the name of an algorithm is at most " + MAX_NAME + " bytes");
        }
        this.credit = credit;
        this.ackDelay = ackDelay;
        this.segment = segment;
        this.algorithm = algorithm;
    }

    /** @return position up to which the peer may send, bytes; unsigned */
    public long credit() {
        return credit;
    }

    /** @return the wish for acknowledgements, microseconds */
    public long ackDelay() {
        return ackDelay;
    }

    /** @return bytes of counted frames in a segment */
    public int segment() {
        return segment;
    }

    /** @return whose receiver module the peer must run; empty: none */
    public String algorithm() {
        return algorithm;
    }

    /** @return the bytes */
    public byte[] encode() {
        byte[] name = algorithm.getBytes(UTF_8);
        ByteBuffer out = ByteBuffer.allocate(FIXED + name.length);
        out.put(MAGIC).put((byte) VERSION).put((byte) 0).putShort((short) (FIXED - HEAD + name.length));
        out.putLong(credit).putInt((int) ackDelay).putShort((short) segment);
        out.put((byte) 0).put((byte) name.length).put(name);
        return out.array();
    }

    /**
     * Reads a preface, of which more may come. On success the position of {@code in} is behind it.
     *
     * @param in everything that has come so far; its position stays if more is needed
     * @return null if more is needed
     * @throws AlccException with the first byte that no preface has there: FOREIGN, VERSION or PROTOCOL
     */
    public static Preface decode(ByteBuffer in) throws AlccException {
        ByteBuffer b = in.slice();
        for (int i = 0; i < Math.min(b.limit(), MAGIC.length); i++) {
            if (b.get(i) != MAGIC[i]) {
                throw new AlccException(AlccException.Kind.FOREIGN, "the peer does not speak ALCC: byte " + i
                    + " is " + (b.get(i) & 255) + ", not " + MAGIC[i]);
            }
        }
        if (b.limit() > 8 && b.get(8) != VERSION) {
            throw new AlccException(AlccException.Kind.VERSION, "the peer speaks version " + (b.get(8) & 255)
                + " of the format, this library speaks " + VERSION);
        }
        if (b.limit() < HEAD) {
            return null;
        }
        int length = HEAD + (b.getShort(10) & 0xffff);
        if (length < FIXED || length > MAX_LENGTH) {
            throw AlccException.protocol("a preface of " + length + " bytes");
        }
        if (b.limit() < length) {
            return null;
        }
        int name = b.get(27) & 255;
        if (name > MAX_NAME || FIXED + name > length) {
            throw AlccException.protocol("an algorithm's name of " + name + " bytes");
        }
        int segment = b.getShort(24) & 0xffff;
        if (segment == 0) {
            throw AlccException.protocol("a segment of no bytes");
        }
        ByteBuffer text = b.duplicate();
        text.position(FIXED).limit(FIXED + name);
        String algorithm;
        try {
            // Unlike a String's constructor, a new decoder reports what is not UTF-8.
            algorithm = UTF_8.newDecoder().decode(text).toString();
        } catch (CharacterCodingException e) {
            throw AlccException.protocol("an algorithm's name that is not UTF-8");
        }
        in.position(in.position() + length);
        return new Preface(b.getLong(12), b.getInt(20) & 0xffffffffL, segment, algorithm);
    }
}
