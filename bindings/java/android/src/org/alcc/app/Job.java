// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.app;

import java.util.Locale;
import org.alcc.cc.Budget;
import org.alcc.cc.Controller;
import org.alcc.cc.Copa;
import org.alcc.cc.Fixed;
import org.alcc.cc.Mdi;

/** Settings of an upload: the server, and the sender's algorithm. */
final class Job {
    static final int PORT = 9700;
    /** As the screen lists them. */
    static final String[] ALGORITHMS = {"budget", "copa", "mdi", "fixed:100"};

    final String host;
    final int port;
    final String algorithm;

    private Job(String host, int port, String algorithm) {
        this.host = host;
        this.port = port;
        this.algorithm = algorithm;
    }

    /**
     * @param server host, host:port or [IPv6]:port
     * @throws IllegalArgumentException in words for the user
     */
    static Job of(String server, String algorithm) {
        return of(server, algorithm, PORT);
    }

    /** The same for a server that has another port unless one is said. */
    static Job of(String server, String algorithm, int usual) {
        String text = server.trim();
        String host = text;
        String port = "";
        if (text.startsWith("[")) {
            int end = text.indexOf(']');
            if (end < 0) {
                throw new IllegalArgumentException("server: no ']' in '" + text + "'");
            }
            host = text.substring(1, end);
            String rest = text.substring(end + 1);
            if (!rest.isEmpty() && !rest.startsWith(":")) {
                throw new IllegalArgumentException("server: ':' and a port follow ']', found '" + rest + "'");
            }
            port = rest.isEmpty() ? "" : rest.substring(1);
        } else if (text.indexOf(':') >= 0 && text.indexOf(':') == text.lastIndexOf(':')) {
            host = text.substring(0, text.indexOf(':'));
            port = text.substring(text.indexOf(':') + 1);
        }
        if (host.isEmpty() || host.indexOf(' ') >= 0) {
            throw new IllegalArgumentException("server: a name or an address, found '" + text + "'");
        }
        controller(algorithm);
        return new Job(host, port.isEmpty() ? usual : number("port", port, 65_535), algorithm);
    }

    private static int number(String what, String text, int most) {
        int number = 0;
        try {
            number = Integer.parseInt(text);
        } catch (NumberFormatException e) {
            // Said below.
        }
        if (number < 1 || number > most) {
            throw new IllegalArgumentException(what + ": a number from 1 to " + most + ", found '" + text + "'");
        }
        return number;
    }

    /** A new one, for one connection. */
    Controller controller() {
        return controller(algorithm);
    }

    private static Controller controller(String algorithm) {
        String text = algorithm.trim().toLowerCase(Locale.ROOT);
        String name = text.indexOf(':') < 0 ? text : text.substring(0, text.indexOf(':'));
        String value = name.length() == text.length() ? "" : text.substring(name.length() + 1);
        if (text.endsWith(":")) {
            name = text;
        }
        switch (name) {
            case "budget":
                return value.isEmpty() ? new Budget() : new Budget(number("budget, ms", value, 10_000));
            case "fixed":
                return new Fixed(value.isEmpty() ? 100 : number("fixed, packets", value, 1_000_000));
            case "copa":
                if (value.isEmpty()) {
                    return new Copa();
                }
                break;
            case "mdi":
                if (value.isEmpty()) {
                    return new Mdi();
                }
                break;
            default:
        }
        throw new IllegalArgumentException(
            "algorithm: budget, budget:MS, copa, mdi or fixed:PACKETS, found '" + algorithm + "'");
    }

    String server() {
        return (host.indexOf(':') < 0 ? host : "[" + host + "]") + ":" + port;
    }
}
