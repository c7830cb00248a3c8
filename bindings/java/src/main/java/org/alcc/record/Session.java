// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.record;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.BitSet;

/** The client's end of a recording without I/O: packets and times go in, packets and times come out. */
final class Session {
    enum Phase { SYNC, RECORDING, DRAINING, FETCHING, DONE }

    private static final long MS = 1_000_000;
    private static final long PING = 20 * MS;
    private static final long PING_WAITING = 100 * MS;
    private static final long PING_DRAINING = 50 * MS;
    private static final int SYNC_ANSWERS = 25;
    private static final int FEW_ANSWERS = 3;
    private static final long MAX_SYNC = 3000 * MS;
    private static final long REPORT = 10 * MS;
    private static final long REPORT_WAITING = 100 * MS;
    /** A listener in its right mind begins within this time. */
    private static final long MAX_START_DELAY = 90_000 * MS;
    private static final int DRAINED_ANSWERS = 10;
    private static final long DRAINED_MARGIN = 20 * MS;
    private static final long SILENCE = 20_000 * MS;
    private static final int MAX_REQUESTS = 32;
    private static final long RETRY = 500 * MS;
    private static final int MAX_BYTES = 256 << 20;
    private static final int GOODBYES = 3;

    private final long id;
    private final Plan plan;
    private final int room;
    private final long began;
    private final Recorded own = new Recorded();
    private final Lateness lateness = new Lateness();
    private Phase phase = Phase.SYNC;
    private Recording.End end = Recording.End.STOPPED;
    private long heard;
    private long newestSent;
    private long newestCame;
    /** The other clock is ahead by something from {@code atLeast} to {@code atMost}, both beyond {@code ahead}. */
    private boolean clockSeen;
    private boolean clockKnown;
    private long ahead;
    private long atLeast;
    private long atMost;
    private long leastRoundTrip = Long.MAX_VALUE;
    private int answers;
    private Source source;
    private Arrivals arrivals;
    private long reported;
    private long tick;
    private int quick;
    private int goodbyes;
    /** Fetched parts; null if their number is not known. */
    private byte[][] parts;
    private int have;
    private int bytes;
    private final BitSet missing = new BitSet();
    private final long[] asked = new long[MAX_REQUESTS];
    private final int[] askedFor = new int[MAX_REQUESTS];
    private long progress;

    /** A session that stores at most {@code room} arrivals. */
    Session(long id, Plan plan, int room, long now) {
        this.id = id;
        this.plan = plan;
        this.room = room;
        began = now;
        heard = now;
        tick = now;
        Arrays.fill(askedFor, -1);
    }

    /** Unsigned. */
    static boolean less(long a, long b) {
        return a + Long.MIN_VALUE < b + Long.MIN_VALUE;
    }

    Phase phase() {
        return phase;
    }

    long heard() {
        return heard;
    }

    /** Finished part of warm-up and duration, 0 to 1. */
    double part(long now) {
        if (source == null) {
            return 0;
        }
        double all = plan.warmUp + plan.duration;
        return Math.min(Math.max((now - own.from + plan.warmUp) / all, 0), 1);
    }

    long received() {
        return own.received;
    }

    /** The rate of the last second, bit/s. */
    long rate() {
        return arrivals == null ? 0 : arrivals.report().rate;
    }

    void stop() {
        done(Recording.End.STOPPED);
    }

    /** The other end is gone, so no farewell is sent. */
    void lose() {
        if (phase != Phase.DONE) {
            goodbyes = GOODBYES;
        }
        done(Recording.End.SILENT);
    }

    private void done(Recording.End how) {
        if (phase != Phase.DONE) {
            phase = Phase.DONE;
            end = how;
        }
    }

    void handle(long now, Packet packet) {
        if (packet.type < Packet.PING || packet.id != id || phase == Phase.DONE) {
            return;
        }
        heard = now;
        if (source != null) {
            source.heard(now);
        }
        clock(now, packet);
        newestSent = packet.sent;
        newestCame = now;
        long roundTrip = now - packet.echoSent;
        switch (packet.type) {
            case Packet.PONG:
                pong(now, packet.startAt, packet.echoSent == 0 || roundTrip < 0 ? Long.MAX_VALUE : roundTrip);
                break;
            case Packet.DATA:
                if (arrivals != null) {
                    arrivals.add(packet.seq, packet.sent, now);
                }
                report(now, Math.max(roundTrip, 0), packet.report);
                break;
            case Packet.REPORT:
                report(now, Math.max(roundTrip, 0), packet.report);
                break;
            case Packet.PART:
                part(now, packet);
                break;
            case Packet.BYE:
                done(Recording.End.LEFT);
                break;
            default:
                break;
        }
    }

    private void clock(long now, Packet packet) {
        if (!clockSeen) {
            clockSeen = true;
            ahead = packet.sent - now;
            atLeast = 0;
        }
        // No packet arrives before it was sent.
        atLeast = Math.max(atLeast, packet.sent - now - ahead);
        if (packet.echoSent != 0 && !less(now, packet.echoSent)) {
            long most = packet.echoReceived - packet.echoSent - ahead;
            atMost = clockKnown ? Math.min(atMost, most) : most;
            clockKnown = true;
        }
    }

    private void report(long now, long roundTrip, Packet.Report report) {
        if (source != null) {
            source.report(now, roundTrip, report);
        }
    }

    private void pong(long now, long startAt, long roundTrip) {
        leastRoundTrip = Math.min(leastRoundTrip, roundTrip);
        if (phase == Phase.SYNC) {
            answers++;
            if (startAt != 0 && clockKnown) {
                long at = startAt - ahead - (atLeast + (atMost - atLeast) / 2);
                if (at - now < MAX_START_DELAY && at - now > -MAX_START_DELAY) {
                    start(at, now);
                }
            }
        } else if (phase == Phase.DRAINING && roundTrip < Long.MAX_VALUE
            && roundTrip - leastRoundTrip <= DRAINED_MARGIN) {
            quick++;
        }
    }

    private void start(long at, long now) {
        own.from = at + plan.warmUp;
        own.to = own.from + plan.duration;
        // A client that learns it late begins at once.
        source = new Source(plan, plan.up, Math.max(at, now), own.to);
        arrivals = new Arrivals(own, plan.ipLength(), room);
        phase = Phase.RECORDING;
        tick = Math.max(at, now);
    }

    /** Maximum size of the listener's recording: it cannot be longer than what this end sent. */
    private long mostParts() {
        long bound = Math.min(120 + 30 * source.sent, MAX_BYTES);
        return bound / (plan.size - Packet.PART_HEADER) + 1;
    }

    private void part(long now, Packet packet) {
        int size = plan.size - Packet.PART_HEADER;
        if (phase != Phase.FETCHING || parts != null && parts.length != packet.parts || packet.parts <= 0
            || packet.parts > mostParts() || packet.part < 0 || packet.part >= packet.parts
            || packet.bytes.length > size || packet.part < packet.parts - 1 && packet.bytes.length < size) {
            return;
        }
        if (parts == null) {
            parts = new byte[packet.parts][];
            missing.set(0, packet.parts);
        }
        progress = now;
        missing.clear(packet.part);
        for (int i = 0; i < MAX_REQUESTS; i++) {
            askedFor[i] = askedFor[i] == packet.part ? -1 : askedFor[i];
        }
        if (parts[packet.part] == null) {
            parts[packet.part] = packet.bytes;
            bytes += packet.bytes.length;
            have++;
        }
        if (have == parts.length) {
            done(Recording.End.COMPLETE);
        }
    }

    /** Transitions that time alone causes. */
    private void advance(long now) {
        long quiet = now - heard;
        if (phase == Phase.SYNC && quiet >= SILENCE) {
            done(Recording.End.SILENT);
        } else if (phase == Phase.RECORDING && now >= own.to) {
            phase = Phase.DRAINING;
            tick = now;
        } else if (phase == Phase.DRAINING) {
            boolean isLong = now - own.to >= SILENCE;
            if (quick >= DRAINED_ANSWERS || isLong && quiet < SILENCE) {
                phase = Phase.FETCHING;
                progress = now;
                missing.set(0);
            } else if (isLong) {
                done(Recording.End.SILENT);
            }
        } else if (phase == Phase.FETCHING && now - progress >= SILENCE) {
            done(Recording.End.SILENT);
        }
    }

    /** Writes the next packet; false: none is due. To be called until then. */
    boolean poll(long now, ByteBuffer to) {
        advance(now);
        Packet packet = next(now);
        if (packet == null) {
            return false;
        }
        packet.sent = now;
        packet.echoSent = newestSent;
        packet.echoReceived = newestCame;
        packet.encode(to, packet.type == Packet.DATA ? plan.size : 0);
        return true;
    }

    private Packet next(long now) {
        switch (phase) {
            case DONE:
                // Three times, since nobody answers it.
                return goodbyes++ < GOODBYES ? new Packet(Packet.BYE, id) : null;
            case RECORDING:
                return load(now);
            case FETCHING:
                return get(now);
            default:
                return ping(now);
        }
    }

    private Packet load(long now) {
        long seq = source.take(now);
        boolean isReport = seq < 0 && source.isIdle() && now >= tick;
        if (seq < 0 && !isReport) {
            return null;
        }
        Packet packet = new Packet(isReport ? Packet.REPORT : Packet.DATA, id);
        packet.report = arrivals.report();
        packet.seq = seq;
        if (isReport) {
            tick = now + (packet.report.received != reported ? REPORT : REPORT_WAITING);
        } else {
            lateness.add(now - source.due);
        }
        reported = packet.report.received;
        return packet;
    }

    private Packet ping(long now) {
        if (now < tick) {
            return null;
        }
        Packet packet = new Packet(Packet.PING, id);
        packet.synced = answers >= (now - began > MAX_SYNC ? FEW_ANSWERS : SYNC_ANSWERS);
        boolean waits = packet.synced && answers > 2 * SYNC_ANSWERS;
        tick = now + (phase == Phase.DRAINING ? PING_DRAINING : waits ? PING_WAITING : PING);
        return packet;
    }

    /** The first part alone, since it says how many there are. */
    private Packet get(long now) {
        int free = -1;
        for (int i = 0; i < MAX_REQUESTS; i++) {
            if (askedFor[i] >= 0 && now - asked[i] >= RETRY) {
                missing.set(askedFor[i]);
                askedFor[i] = -1;
            }
            free = askedFor[i] < 0 ? i : free;
        }
        int part = missing.nextSetBit(0);
        if (free < 0 || part < 0) {
            return null;
        }
        missing.clear(part);
        askedFor[free] = part;
        asked[free] = now;
        Packet packet = new Packet(Packet.GET, id);
        packet.part = part;
        return packet;
    }

    /** Time at which {@link #poll} must be called at the latest; {@link Long#MAX_VALUE}: never. */
    long timer(long now) {
        switch (phase) {
            case DONE:
                return goodbyes < GOODBYES ? now : Long.MAX_VALUE;
            case RECORDING:
                return Math.min(Math.min(source.next(), own.to), source.isIdle() ? tick : Long.MAX_VALUE);
            case FETCHING:
                return now + PING;
            default:
                return tick;
        }
    }

    Recording recording() {
        if (source != null) {
            own.sent = source.sent;
            own.skipped = source.skipped;
        }
        lateness.write(own.late);
        Recorded other = null;
        if (end == Recording.End.COMPLETE) {
            ByteBuffer all = ByteBuffer.allocate(bytes);
            for (byte[] each : parts) {
                all.put(each);
            }
            other = Recorded.decode(all.array());
        }
        return new Recording(plan, end, own, other);
    }

    /** Lateness of sent packets: quantiles within 9 % from a table. */
    private static final class Lateness {
        private static final int SLOTS_PER_OCTAVE = 8;

        private final long[] slots = new long[64 * SLOTS_PER_OCTAVE];
        private long count;
        private long latest;

        void add(long late) {
            slots[(int) (Math.log(Math.max(late, 1)) / Math.log(2) * SLOTS_PER_OCTAVE)]++;
            count++;
            latest = Math.max(latest, late);
        }

        private long quantile(double share) {
            long rank = (long) Math.ceil(share * count);
            long sum = 0;
            for (int i = 0; i < slots.length && count > 0; i++) {
                sum += slots[i];
                if (sum >= rank) {
                    return Math.min((long) Math.pow(2, (i + 1.0) / SLOTS_PER_OCTAVE), latest);
                }
            }
            return 0;
        }

        void write(long[] to) {
            to[0] = quantile(0.5);
            to[1] = quantile(0.99);
            to[2] = latest;
        }
    }
}
