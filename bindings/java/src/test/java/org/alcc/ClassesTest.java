// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc;

import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import org.junit.Test;

/** Checks of the class files that neither the compiler nor the signatures of API 21 make. */
public class ClassesTest {
    private static void find(File folder, List<File> classes) {
        for (File file : folder.listFiles()) {
            if (file.isDirectory()) {
                find(file, classes);
            } else if (file.getName().endsWith(".class")) {
                classes.add(file);
            }
        }
    }

    /** A lambda becomes an invokedynamic, whose constant Android 5 does not know. */
    @Test
    public void noClassHasALambdaOrADefaultMethod() throws Exception {
        File root = new File(System.getProperty("classes"));
        List<File> classes = new ArrayList<File>();
        find(root, classes);
        assertTrue(classes.size() > 15);
        for (File file : classes) {
            String content = new String(Files.readAllBytes(file.toPath()), StandardCharsets.ISO_8859_1);
            assertFalse(file.getName(), content.contains("BootstrapMethods"));
            String name = root.toPath().relativize(file.toPath()).toString().replace(".class", "").replace('/', '.');
            for (java.lang.reflect.Method method : Class.forName(name).getDeclaredMethods()) {
                assertFalse(method.toString(), method.isDefault());
            }
        }
    }
}
