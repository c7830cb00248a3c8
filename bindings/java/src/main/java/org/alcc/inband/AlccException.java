// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.io.IOException;

/** Error that ended a connection, or kept it from beginning. The message is one line. */
public final class AlccException extends IOException {
    private static final long serialVersionUID = 1L;

    /** Kinds of errors. */
    public enum Kind {
        /** The peer does not speak ALCC. */
        FOREIGN,
        /** The peer speaks another version of the format. */
        VERSION,
        /** The peer broke a rule of the format. */
        PROTOCOL,
        /** The peer said nothing within the time that it had. */
        SILENT,
        /** The stream below ended before the peer had said so. */
        CUT,
        /** The peer ended the connection; {@link AlccException#reason()} has the reason. */
        CLOSED,
        /** The peer's algorithm needs a receiver module, and this library has none. */
        RECEIVER_MODULE,
        /** It was given up at this end, or written after the end. */
        GIVEN_UP,
        /** The stream below failed; see the cause. */
        STREAM
    }

    /** The kind, for programs. */
    private final Kind kind;
    /** The number of the peer's CLOSE. */
    private final int reason;

    AlccException(Kind kind, String message) {
        this(kind, message, -1, null);
    }

    private AlccException(Kind kind, String message, int reason, Throwable cause) {
        super(oneLine(message), cause);
        this.kind = kind;
        this.reason = reason;
    }

    /** Removes control characters, because the message may contain the peer's text. */
    private static String oneLine(String text) {
        StringBuilder line = new StringBuilder(text);
        for (int i = 0; i < line.length(); i++) {
            if (Character.isISOControl(line.charAt(i))) {
                line.setCharAt(i, ' ');
            }
        }
        return line.toString();
    }

    static AlccException protocol(String found) {
        return new AlccException(Kind.PROTOCOL, "the peer broke the protocol: " + found);
    }

    static AlccException closed(int reason, String text) {
        String[] names = {"its data ended", "it gave up", "we broke the protocol",
            "it has no such receiver module", "we were silent for too long"};
        String name = reason < names.length ? names[reason] : "reason " + reason;
        return new AlccException(Kind.CLOSED, "the peer ended the connection: " + name
            + (text.isEmpty() ? "" : ": " + text), reason, null);
    }

    static AlccException stream(IOException cause) {
        return new AlccException(Kind.STREAM, "the stream below failed: " + cause.getMessage(), -1, cause);
    }

    /** The same error with the stack of the present caller. The cause has the first stack and is printed once. */
    AlccException again() {
        AlccException again = new AlccException(kind, getMessage(), reason, getCause());
        if (getCause() == null) {
            again.addSuppressed(this);
        }
        return again;
    }

    /**
     * The kind of the error, for programs.
     *
     * @return never null
     */
    public Kind kind() {
        return kind;
    }

    /**
     * The reason of the peer's CLOSE.
     *
     * @return 1: it gave up; 2: this end broke a rule; 3: it has no such receiver module; 4: this end was silent for
     *     too long; others are to be shown; -1 if the kind is not CLOSED
     */
    public int reason() {
        return reason;
    }
}
