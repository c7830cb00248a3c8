// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.record;

import java.io.IOException;

/** Error of a recording that did not begin. The message is one line. */
public final class RecordException extends IOException {
    private static final long serialVersionUID = 1L;

    /** Kinds of errors. */
    public enum Kind {
        /** The host's name has no address. */
        UNKNOWN_HOST,
        /** No answer came in time. */
        NO_ANSWER,
        /** The network reports that nothing listens on this port. */
        NOBODY_LISTENS,
        /** The listener does not want to; its words are in the message. */
        REFUSED,
        /** It was stopped before it had begun. */
        STOPPED,
        /** The socket failed; see the cause. */
        SOCKET
    }

    /** The kind, for programs. */
    private final Kind kind;

    RecordException(Kind kind, String message, Throwable cause) {
        super(message, cause);
        this.kind = kind;
    }

    /**
     * What went wrong, for programs.
     *
     * @return never null
     */
    public Kind kind() {
        return kind;
    }
}
