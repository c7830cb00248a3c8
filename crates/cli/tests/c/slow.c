/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A plug-in with a window of 8 packets whose start takes longer than the kernel waits for an answer (0.5 s). */
#define _DEFAULT_SOURCE
#include <alcc.h>
#include <stdlib.h>
#include <unistd.h>

static void *create(const struct alcc_create *settings)
{
    (void)settings;
    return calloc(1, sizeof(uint64_t));
}

static void *clone(const void *state)
{
    uint64_t *copy = malloc(sizeof *copy);
    if (copy != NULL)
        *copy = *(const uint64_t *)state;
    return copy;
}

static void on_start(void *state, uint64_t now_ns, const struct alcc_path *path)
{
    (void)now_ns;
    *(uint64_t *)state = path->mss;
    usleep(900000);
}

static void on_ack(void *state, uint64_t now_ns, const struct alcc_ack *ack)
{
    (void)state, (void)now_ns, (void)ack;
}

static void allowance(const void *state, struct alcc_allowance *out)
{
    out->window = 8 * *(const uint64_t *)state;
}

const struct alcc_algorithm alcc_algorithm_v2 = {
    .abi = ALCC_PLUGIN_ABI,
    .size = sizeof(struct alcc_algorithm),
    .name = "slow",
    .summary = "a fixed window, and a start that takes 0.9 s",
    .create = create,
    .clone = clone,
    .destroy = free,
    .allowance = allowance,
    .on_start = on_start,
    .on_ack = on_ack,
};
