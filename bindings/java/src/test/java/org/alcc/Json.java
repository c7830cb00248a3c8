// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc;

import java.io.IOException;
import java.io.StreamTokenizer;
import java.io.StringReader;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** As much JSON as the vectors have: whole numbers, no escapes but of a quotation mark. */
public final class Json {
    private final StreamTokenizer tokens;

    private Json(String text) {
        tokens = new StreamTokenizer(new StringReader(text));
        tokens.resetSyntax();
        tokens.whitespaceChars(0, ' ');
        tokens.wordChars('a', 'z');
        tokens.wordChars('0', '9');
        tokens.wordChars('-', '-');
        tokens.quoteChar('"');
    }

    public static Map<String, Object> parse(String text) throws IOException {
        return map(new Json(text).value());
    }

    @SuppressWarnings("unchecked")
    public static Map<String, Object> map(Object value) {
        return (Map<String, Object>) value;
    }

    @SuppressWarnings("unchecked")
    public static List<Object> list(Object value) {
        return (List<Object>) value;
    }

    private Object value() throws IOException {
        int token = tokens.nextToken();
        if (token == '{') {
            Map<String, Object> map = new LinkedHashMap<String, Object>();
            for (token = tokens.nextToken(); token != '}'; token = tokens.nextToken()) {
                if (token == ',') {
                    continue;
                }
                String name = tokens.sval;
                if (token != '"' || tokens.nextToken() != ':') {
                    throw new IOException("no JSON: " + tokens);
                }
                map.put(name, value());
            }
            return map;
        }
        if (token == '[') {
            List<Object> list = new ArrayList<Object>();
            for (token = tokens.nextToken(); token != ']'; token = tokens.nextToken()) {
                if (token != ',') {
                    tokens.pushBack();
                    list.add(value());
                }
            }
            return list;
        }
        if (token == '"') {
            return tokens.sval;
        }
        if (token != StreamTokenizer.TT_WORD) {
            throw new IOException("no JSON: " + tokens);
        }
        switch (tokens.sval) {
            case "true":
                return true;
            case "false":
                return false;
            case "null":
                return null;
            default:
                return Long.valueOf(tokens.sval);
        }
    }
}
