// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.record;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.Charset;
import java.nio.charset.CodingErrorAction;

/**
 * One datagram of the recording format. Which fields mean something depends on the type. Times are nanoseconds of the
 * clock of who sends them; all numbers are unsigned but the delays of a report.
 */
public final class Packet {
    /** Client: it would like to record. */
    public static final int HELLO = 1;
    /** Listener: prove that you receive at this address. */
    public static final int CHALLENGE = 2;
    /** Client: the cookie, and what is to be recorded. */
    public static final int START = 3;
    /** Listener: agreed. */
    public static final int READY = 4;
    /** Listener: no. */
    public static final int REFUSED = 5;
    /** Client: what time is it? */
    public static final int PING = 16;
    /** Listener: the answer. */
    public static final int PONG = 17;
    /** A packet of the load. */
    public static final int DATA = 18;
    /** Report on arrivals, from an end without load. */
    public static final int REPORT = 19;
    /** Client: give me a part of what you recorded. */
    public static final int GET = 20;
    /** Listener: here it is. */
    public static final int PART = 21;
    /** The end. */
    public static final int BYE = 22;
    /** Bytes of a PART around its content. */
    static final int PART_HEADER = 48;

    private static final int MAGIC = 0x414c5243;
    private static final int VERSION = 1;
    private static final int COOKIE = 24;
    private static final int TEXT = 200;
    private static final Charset UTF_8 = Charset.forName("UTF-8");

    /** Report of a receiver to the sender of a load. */
    public static final class Report {
        /** The highest number that has come, and one. */
        public long below;
        /** Number of received packets. */
        public long received;
        /** Delay of the newest, nanoseconds, with the difference of the clocks in it. */
        public long delay;
        /** The smallest such delay, nanoseconds. */
        public long least;
        /** The highest rate of late, bit/s with headers. */
        public long peak;
        /** The rate of the last second, bit/s with headers. */
        public long rate;
    }

    /** One of the constants above. */
    public final int type;
    /** The session; of the first five types the client's nonce. */
    public final long id;
    /** CHALLENGE, START: 24 bytes. */
    public byte[] cookie;
    /** START. */
    public Plan plan;
    /** START: how the client wants to be called. REFUSED: why. At most 200 bytes of UTF-8. */
    public String text;
    /** READY: every later packet's session. */
    public long session;
    /** From PING on: time at which it was sent. */
    public long sent;
    /** From PING on: sending time in the newest packet of the other end; 0 before the first. */
    public long echoSent;
    /** From PING on: arrival time of that packet. */
    public long echoReceived;
    /** PING: the client knows enough of the clocks. */
    public boolean synced;
    /** PONG: when sending begins, by the listener's clock; 0: not yet known. */
    public long startAt;
    /** DATA: number from 0. */
    public long seq;
    /** DATA, REPORT. */
    public Report report;
    /** GET, PART: number from 0. */
    public int part;
    /** PART: of how many. */
    public int parts;
    /** PART: its content. */
    public byte[] bytes;

    /**
     * A packet whose other fields are still to be set.
     *
     * @param type one of the constants
     * @param id the session, or the nonce
     */
    public Packet(int type, long id) {
        this.type = type;
        this.id = id;
    }

    /**
     * Writes the packet, filled up with zeros.
     *
     * @param to where; it needs room for the packet and for {@code length} bytes
     * @param length bytes that it has at least
     */
    public void encode(ByteBuffer to, int length) {
        int from = to.position();
        to.putInt(MAGIC).put((byte) VERSION).put((byte) type).putLong(id);
        if (type >= PING) {
            to.putLong(sent).putLong(echoSent).putLong(echoReceived);
        }
        switch (type) {
            case CHALLENGE:
                to.put(cookie);
                break;
            case START:
                to.put(cookie).put((byte) plan.mode.ordinal()).putShort((short) plan.size);
                to.putShort((short) plan.overhead).putLong(plan.duration).putLong(plan.warmUp);
                to.putLong(plan.down).putLong(plan.up).putLong(plan.limit);
                text(to);
                break;
            case READY:
                to.putLong(session);
                break;
            case REFUSED:
                text(to);
                break;
            case PING:
                to.put((byte) (synced ? 1 : 0));
                break;
            case PONG:
                to.putLong(startAt);
                break;
            case DATA:
                to.putLong(seq);
                report(to);
                break;
            case REPORT:
                report(to);
                break;
            case GET:
                to.putInt(part);
                break;
            case PART:
                to.putInt(part).putInt(parts).putShort((short) bytes.length).put(bytes);
                break;
            default:
                break;
        }
        while (to.position() - from < length) {
            to.put((byte) 0);
        }
    }

    private void report(ByteBuffer to) {
        to.putLong(report.below).putLong(report.received).putLong(report.delay);
        to.putLong(report.least).putLong(report.peak).putLong(report.rate);
    }

    private void text(ByteBuffer to) {
        byte[] all = text.getBytes(UTF_8);
        int end = Math.min(all.length, TEXT);
        // Not within a character.
        while (end < all.length && (all[end] & 0xc0) == 0x80) {
            end--;
        }
        to.put((byte) end).put(all, 0, end);
    }

    /**
     * Reads one datagram.
     *
     * @param from its bytes, from position to limit
     * @return the packet; null: it is none, and is to be ignored
     */
    public static Packet decode(ByteBuffer from) {
        try {
            if (from.getInt() != MAGIC || from.get() != VERSION) {
                return null;
            }
            Packet packet = new Packet(from.get() & 0xff, from.getLong());
            return packet.read(from) ? packet : null;
        } catch (BufferUnderflowException | CharacterCodingException e) {
            return null;
        }
    }

    private boolean read(ByteBuffer from) throws CharacterCodingException {
        if (type >= PING) {
            sent = from.getLong();
            echoSent = from.getLong();
            echoReceived = from.getLong();
        }
        switch (type) {
            case HELLO:
            case BYE:
                return true;
            case CHALLENGE:
                cookie = take(from, COOKIE);
                return true;
            case START:
                cookie = take(from, COOKIE);
                int mode = from.get() & 0xff;
                if (mode >= Plan.Mode.values().length) {
                    return false;
                }
                plan = new Plan(Plan.Mode.values()[mode], from.getShort() & 0xffff, from.getShort() & 0xffff,
                    from.getLong(), from.getLong(), from.getLong(), from.getLong(), from.getLong());
                return readText(from);
            case READY:
                session = from.getLong();
                return true;
            case REFUSED:
                return readText(from);
            case PING:
                int known = from.get();
                synced = known == 1;
                return known == 0 || known == 1;
            case PONG:
                startAt = from.getLong();
                return true;
            case DATA:
                seq = from.getLong();
                readReport(from);
                return true;
            case REPORT:
                readReport(from);
                return true;
            case GET:
                part = from.getInt();
                return true;
            case PART:
                part = from.getInt();
                parts = from.getInt();
                bytes = take(from, from.getShort() & 0xffff);
                return true;
            default:
                return false;
        }
    }

    private static byte[] take(ByteBuffer from, int length) {
        if (length > from.remaining()) {
            throw new BufferUnderflowException();
        }
        byte[] taken = new byte[length];
        from.get(taken);
        return taken;
    }

    private void readReport(ByteBuffer from) {
        report = new Report();
        report.below = from.getLong();
        report.received = from.getLong();
        report.delay = from.getLong();
        report.least = from.getLong();
        report.peak = from.getLong();
        report.rate = from.getLong();
    }

    /** Removes control characters, because the text is printed and is the name of a folder. */
    private boolean readText(ByteBuffer from) throws CharacterCodingException {
        byte[] all = take(from, from.get() & 0xff);
        CharBuffer chars = UTF_8.newDecoder().onMalformedInput(CodingErrorAction.REPORT)
            .onUnmappableCharacter(CodingErrorAction.REPORT).decode(ByteBuffer.wrap(all));
        text = chars.toString();
        for (int i = 0; i < text.length(); i++) {
            if (Character.isISOControl(text.charAt(i))) {
                return false;
            }
        }
        return all.length <= TEXT;
    }
}
