// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.io.IOException;

/** Why a connection ended. The message is one line. */
public final class AlccException extends IOException {
    private static final long serialVersionUID = 1L;

    /** What went wrong. */
    public enum Kind {
        /** The peer does not speak ALCC. */
        FOREIGN,
        /** The peer speaks another version of the format. */
        VERSION,
        /** The peer broke a rule of the format. */
        PROTOCOL
    }

    private final Kind kind;

    AlccException(Kind kind, String message) {
        super(message);
        this.kind = kind;
    }

    static AlccException protocol(String found) {
        return new AlccException(Kind.PROTOCOL, "the peer broke the protocol: " + found);
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
