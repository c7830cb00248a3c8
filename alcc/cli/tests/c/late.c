/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Linked statically: nothing is preloaded before, half a second later, it becomes the program that is named. */
#include <stddef.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    usleep(500000);
    if (count > 1)
        execv(arguments[1], arguments + 1);
    return 1;
}
