/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Additive increase, multiplicative decrease with slow start, as a plug-in: the example to copy.
 *
 *   cc -O2 -Wall -shared -fPIC $(pkg-config --cflags alcc) -o aimd.so aimd.c
 *   alcc-lab sim --plugin aimd.so --flow aimd:beta=0.7
 *   alcc run --plugin aimd.so --cc aimd -- nginx -g 'daemon off;'
 *
 * The window grows by one packet per acknowledged packet up to a threshold (slow start), then by `alpha` packets per
 * round trip; a loss or a mark (ECN) multiplies it by `beta`, a timeout sets it to one packet. */
#include <alcc.h>
#include <stdlib.h>

#define INITIAL 10.0  /* packets, RFC 6928 */
#define SMALLEST 2.0  /* packets, after a loss, RFC 5681 */
#define LARGEST 1e6   /* packets */

struct aimd {
    double alpha, beta; /* packets per round trip; factor */
    double window;      /* packets */
    double threshold;   /* packets */
    double before;      /* the window before the last reduction, 0: none */
    double mss;         /* bytes */
    int recovering;     /* between a loss and its repair the window holds still */
    uint64_t sent;      /* the newest packet */
    uint64_t reduced_at; /* the newest packet at the last reduction */
};

/* The options have been read and are within their bounds; they come in the order of the table below. */
static void *create(const struct alcc_create *settings)
{
    struct aimd *a = calloc(1, sizeof *a);
    if (a == NULL)
        return NULL;
    a->alpha = settings->values[0].real;
    a->beta = settings->values[1].real;
    a->window = INITIAL;
    a->threshold = LARGEST;
    a->mss = 1448;
    return a;
}

static void *clone(const void *state)
{
    struct aimd *copy = malloc(sizeof *copy);
    if (copy != NULL)
        *copy = *(const struct aimd *)state;
    return copy;
}

static void needs(const void *state, struct alcc_needs *out)
{
    (void)state;
    /* Proportional rate reduction (RFC 6937) after a loss, and ECN; the rest of `out` keeps its defaults. */
    out->flags = ALCC_NEEDS_PRR | ALCC_NEEDS_ECN;
}

static void on_path(void *state, uint64_t now_ns, const struct alcc_path *path)
{
    (void)now_ns;
    ((struct aimd *)state)->mss = (double)path->mss;
}

/* The path has another mss. */
static void on_mtu(void *state, uint64_t now_ns, uint64_t mss)
{
    (void)now_ns;
    ((struct aimd *)state)->mss = (double)mss;
}

static void reduce(struct aimd *a)
{
    a->before = a->window;
    a->threshold = a->window * a->beta > SMALLEST ? a->window * a->beta : SMALLEST;
}

static void on_ack(void *state, uint64_t now_ns, const struct alcc_ack *ack)
{
    struct aimd *a = state;
    const struct alcc_packet *newest = &ack->packets[ack->packet_count - 1];
    (void)now_ns;
    if (!(ack->flags & ALCC_ACK_IN_RECOVERY))
        a->recovering = 0;
    /* A mark counts as a loss, once per round trip: only for what was sent after the last reduction. */
    if (ack->marked > 0 && !a->recovering && newest->number > a->reduced_at) {
        reduce(a);
        a->window = a->threshold;
        a->before = 0; /* and is no mistake */
        a->reduced_at = a->sent;
        return;
    }
    /* A window that was not used says nothing about the path: only half of it in flight, and not ours the limit. */
    if (a->recovering || (!(ack->flags & ALCC_ACK_LIMITED_BY_WINDOW)
            && (double)ack->in_flight_before < a->window * a->mss / 2))
        return;
    for (uint64_t i = 0; i < ack->packet_count; i++) {
        double packets = (double)ack->packets[i].length / a->mss; /* over TCP a record is several segments */
        if (a->window < a->threshold)
            a->window += packets < a->threshold - a->window ? packets : a->threshold - a->window;
        else
            a->window += a->alpha * packets / a->window;
    }
    if (a->window > LARGEST)
        a->window = LARGEST;
}

static void on_loss(void *state, uint64_t now_ns, const struct alcc_loss *loss)
{
    struct aimd *a = state;
    (void)now_ns;
    if (!loss->new_episode) /* once per recovery, however many packets are lost */
        return;
    reduce(a);
    a->window = a->threshold;
    a->recovering = 1;
    a->reduced_at = a->sent;
}

static void on_rto(void *state, uint64_t now_ns, const struct alcc_rto *rto)
{
    struct aimd *a = state;
    (void)now_ns;
    if (rto->backoff == 1) /* only the first expiry says something about the path */
        reduce(a);
    a->window = 1;
    a->recovering = 0;
}

static void on_spurious(void *state, uint64_t now_ns, uint32_t timeout)
{
    struct aimd *a = state;
    (void)now_ns, (void)timeout;
    if (a->before > a->window)
        a->window = a->before;
    a->before = 0;
    a->recovering = 0;
}

static uint64_t on_sent(void *state, uint64_t now_ns, const struct alcc_sent *sent)
{
    (void)now_ns;
    ((struct aimd *)state)->sent = sent->number;
    return 0; /* no tag */
}

static void allowance(const void *state, struct alcc_allowance *out)
{
    const struct aimd *a = state;
    out->window = (uint64_t)(a->window * a->mss); /* quota and pacing keep "no limit" */
}

static void gauges(const void *state, double *values)
{
    const struct aimd *a = state;
    values[0] = a->window;
    values[1] = a->threshold;
}

static const struct alcc_option options[] = {
    {"alpha", "1", "packets more per round trip, 0.1 to 10", ALCC_OPTION_REAL, 0, 0.1, 10},
    {"beta", "0.5", "what a loss leaves of the window, 0.1 to 0.9", ALCC_OPTION_REAL, 0, 0.1, 0.9},
};

static const char *const gauge_names[] = {"cwnd", "ssthresh"};

const struct alcc_algorithm alcc_algorithm_v3 = {
    .abi = ALCC_PLUGIN_ABI,
    .size = sizeof(struct alcc_algorithm),
    .name = "aimd",
    .summary = "additive increase, multiplicative decrease: the example in C",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .gauge_names = gauge_names,
    .gauge_count = sizeof gauge_names / sizeof gauge_names[0],
    .create = create,
    .clone = clone,
    .destroy = free,
    .needs = needs,
    .allowance = allowance,
    .on_start = on_path,
    .on_mtu = on_mtu,
    .on_ack = on_ack,
    .on_sent = on_sent,
    .on_loss = on_loss,
    .on_rto = on_rto,
    .on_spurious = on_spurious,
    .gauges = gauges,
};
