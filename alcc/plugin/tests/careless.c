/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A plug-in that breaks the contract in the way that its option `fault` says. What a host sees must keep it all the same. */
#include <alcc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct careless {
    char fault[32];
    uint64_t values[4];
    double real;
};

static int is(const struct careless *c, const char *fault)
{
    return strcmp(c->fault, fault) == 0;
}

static void *create(const struct alcc_create *settings)
{
    const struct alcc_value *v = settings->values;
    if (strcmp(v[0].text, "refuse") == 0) {
        snprintf(settings->error, settings->error_size, "fault=%s:\nnot today", v[0].text);
        return NULL;
    }
    if (strcmp(v[0].text, "silent") == 0)
        return NULL;
    struct careless *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    snprintf(c->fault, sizeof c->fault, "%s", v[0].text);
    for (int i = 0; i < 3; i++)
        c->values[i] = v[i + 1].whole;
    c->real = v[4].real;
    return c;
}

static void *clone(const void *state)
{
    if (is(state, "no-memory"))
        return NULL;
    struct careless *copy = malloc(sizeof *copy);
    if (copy != NULL)
        memcpy(copy, state, sizeof *copy);
    return copy;
}

static void needs(const void *state, struct alcc_needs *out)
{
    out->flags = 0xFFFFFFFF;
    out->feedback_period_ns = is(state, "never-look") ? ALCC_NONE : 0;
}

static void on_ack(void *state, uint64_t now_ns, const struct alcc_ack *ack)
{
    (void)state, (void)now_ns, (void)ack;
}

static void allowance(const void *state, struct alcc_allowance *out)
{
    volatile double zero = 0;
    out->window = 100000;
    if (is(state, "no-window"))
        out->window = 0;
    if (is(state, "not-a-number")) {
        out->window = (uint64_t)(zero / zero);
        out->quota = (uint64_t)(zero / zero);
        out->rate_bps = (uint64_t)(zero / zero);
        out->burst = (uint64_t)(zero / zero);
    }
    if (is(state, "huge")) {
        out->window = ALCC_NONE - 1;
        out->rate_bps = ALCC_NONE - 1;
        out->burst = ALCC_NONE;
    }
    if (is(state, "no-rate"))
        out->rate_bps = 0;
    if (is(state, "quota-never-spent"))
        out->quota = 10000;
    if (is(state, "no-quota"))
        out->quota = 0;
    if (is(state, "ping"))
        out->ping = 1;
}

static uint64_t next_timer(const void *state)
{
    return is(state, "timer-in-the-past") ? 0 : ALCC_NONE;
}

static void gauges(const void *state, double *values)
{
    const struct careless *c = state;
    volatile double zero = 0;
    for (int i = 0; i < 3; i++)
        values[i] = (double)c->values[i];
    values[3] = c->real;
    values[4] = zero / zero;
    values[5] = 1 / zero;
}

static const struct alcc_option options[] = {
    {"fault", "none", "what to do wrong", ALCC_OPTION_TEXT, 0, 0, 0},
    {"whole", "7", "a whole number", ALCC_OPTION_WHOLE, 0, 1, 10},
    {"time", "5ms", "a length of time, 1ms to 1s", ALCC_OPTION_TIME, 0, 1e6, 1e9},
    {"bytes", "2k", "a number of bytes", ALCC_OPTION_BYTES, 0, 0, 0},
    {"real", "-0.5", "a real number", ALCC_OPTION_REAL, 0, 0, 0},
};

static const char *const gauge_names[] = {"whole", "time", "bytes", "real", "nan", "infinite"};

const struct alcc_algorithm alcc_algorithm_v3 = {
    .abi = ALCC_PLUGIN_ABI,
    .size = sizeof(struct alcc_algorithm),
    .name = "careless",
    .summary = "breaks the contract",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .gauge_names = gauge_names,
    .gauge_count = sizeof gauge_names / sizeof gauge_names[0],
    .create = create,
    .clone = clone,
    .destroy = free,
    .needs = needs,
    .allowance = allowance,
    .on_ack = on_ack,
    .next_timer = next_timer,
    .gauges = gauges,
};
