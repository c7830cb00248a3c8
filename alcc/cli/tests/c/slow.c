/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A plug-in with a window of 8 packets that takes its time: by default its start takes longer than the kernel waits
 * for an answer (0.5 s). */
#define _DEFAULT_SOURCE
#include <alcc.h>
#include <stdlib.h>
#include <unistd.h>

struct slow {
    uint64_t mss;
    unsigned start_ms, ack_ms;
};

static void *create(const struct alcc_create *settings)
{
    struct slow *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->start_ms = (unsigned)settings->values[0].whole;
    s->ack_ms = (unsigned)settings->values[1].whole;
    return s;
}

static void *clone(const void *state)
{
    struct slow *copy = malloc(sizeof *copy);
    if (copy != NULL)
        *copy = *(const struct slow *)state;
    return copy;
}

static void on_start(void *state, uint64_t now_ns, const struct alcc_path *path)
{
    struct slow *s = state;
    (void)now_ns;
    s->mss = path->mss;
    usleep(1000 * s->start_ms);
}

static void on_ack(void *state, uint64_t now_ns, const struct alcc_ack *ack)
{
    (void)now_ns, (void)ack;
    usleep(1000 * ((struct slow *)state)->ack_ms);
}

static void allowance(const void *state, struct alcc_allowance *out)
{
    out->window = 8 * ((const struct slow *)state)->mss;
}

static const struct alcc_option options[] = {
    {"start", "900", "time of the start, ms", ALCC_OPTION_WHOLE, 0, 0, 10000},
    {"ack", "0", "time of each acknowledgement, ms", ALCC_OPTION_WHOLE, 0, 0, 1000},
};

const struct alcc_algorithm alcc_algorithm_v3 = {
    .abi = ALCC_PLUGIN_ABI,
    .size = sizeof(struct alcc_algorithm),
    .name = "slow",
    .summary = "a fixed window, and events that take their time",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .create = create,
    .clone = clone,
    .destroy = free,
    .allowance = allowance,
    .on_start = on_start,
    .on_ack = on_ack,
};
